mod events;
mod operations;
mod parts;
mod workers;
