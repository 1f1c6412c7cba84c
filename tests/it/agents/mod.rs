//! Agents at work over MCP: many at a time, and the texts of their failures.

mod fleet;
mod mistakes;
