mod events;
mod operations;
mod parts;
