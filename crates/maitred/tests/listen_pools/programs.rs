//! Servers that know nothing of Maitred.
