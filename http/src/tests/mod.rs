mod admission;
mod agents;
mod connections;
mod events;
mod pages;
mod published;
mod server;
mod specials;
