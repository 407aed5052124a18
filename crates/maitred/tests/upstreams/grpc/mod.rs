//! gRPC with the programs of others on both sides of the real binary: the interop cases of the gRPC project, by its client and
//! server in Go, grpcio of Python, and Connect's client for browsers.

mod interop;
mod python;
mod web;
