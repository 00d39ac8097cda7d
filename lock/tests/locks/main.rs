//! The locks on simulated clusters: survival, the hazards that must be caught, and misuse.

mod behaviour;
mod broken;
mod harness;
mod misuse;
mod torture;
