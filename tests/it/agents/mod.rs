//! Agents at work over MCP: what they are told when they make mistakes.

mod mistakes;
