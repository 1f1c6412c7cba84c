//! Agents at work over MCP: many at a time, and what they are told when they make mistakes.

mod fleet;
mod mistakes;
