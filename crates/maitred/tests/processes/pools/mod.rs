//! Elastic pools of application processes, seen from outside: the real binary, with small Python applications.

mod commands;
mod failing;
mod health;
mod load;
mod look;
mod orphans;
mod recovering;
mod recycling;
mod releases;
mod reloads;
mod steps;
mod sticky;
mod surroundings;
