"""Tools for a model: called one by one, or from TypeScript programs it writes."""

from ptc.tools.calls import CheckedTool, ProgramTools, checked
from ptc.tools.declarations import declarations
from ptc.tools.mcp import mcp_tools, stdio_tools
from ptc.tools.model import NestedCall, Tool, ToolResult
from ptc.tools.run_code import CodeTools, Mode

__all__ = [
    "CheckedTool",
    "CodeTools",
    "Mode",
    "NestedCall",
    "ProgramTools",
    "Tool",
    "ToolResult",
    "checked",
    "declarations",
    "mcp_tools",
    "stdio_tools",
]
