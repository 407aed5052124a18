//! Pools that accept connections by themselves: any server that takes inherited sockets, sized by what the kernel says.

mod load;
mod programs;
mod reloading;
mod world;
