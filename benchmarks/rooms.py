"""How `analyses/` is arranged: `python benchmarks/rooms.py`.

Prints modules in no room, pairs of modules of `protocols/` of which one imports the other, through others of `protocols/` too, and
through any, ids of rules outside of `rules/`, circles of imports (of modules, at the top level of their files, in all of ptxkit), who
imports whom among the rooms, lines outside of `rules/`, hand-written worklists by room, and words in names and docstrings that are not
those of the field.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import networkx

ROOT = Path(__file__).resolve().parent.parent
ANALYSES = ROOT / "analyses"
ENGINES = ("numbers", "cfg", "registers", "launch", "symbolic", "threads", "memory", "uniformity", "events", "symex")
"""The rooms whose functions have tests of their own."""
ID = re.compile(r"^[A-Z]\d{3}$")

Graph = Mapping[str, frozenset[str]]
"""By module, those that it imports."""


def modules() -> dict[str, Path]:
    """The modules of ptxkit by their dotted names."""
    found = {}
    for top in ("ptxkit", "analyses", "rewriters"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] in (("ptxkit", "analyses"), ("ptxkit", "rewriters")):
                continue
            name = ".".join(parts if top == "ptxkit" else ("ptxkit", *parts))
            found[name.removesuffix(".__init__")] = path
    return found


def imports(every: Mapping[str, Path]) -> dict[str, frozenset[str]]:
    """Who imports whom at the top level of files; what stands below `if TYPE_CHECKING` or in a function is not counted."""
    return {name: frozenset(_imported(ast.parse(path.read_text("utf-8")).body, every) - {name}) for name, path in every.items()}


def _imported(body: Iterable[ast.stmt], every: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            deeper = {f"{node.module}.{alias.name}" for alias in node.names} & set(every)
            found |= deeper or {node.module}
    return found & set(every)


def pairs(graph: Graph, prefix: str, through: str = "") -> int:
    """How many pairs of modules below a package there are of which one comes to the other, through modules below `through`."""
    nodes = networkx.DiGraph([(a, b) for a, to in graph.items() for b in to if a.startswith(through) and b.startswith(through)])
    own = {name for name in graph if name.startswith(prefix) and name in nodes}
    return sum(len(networkx.descendants(nodes, name) & own) for name in own)


def circles(graph: Graph) -> list[list[str]]:
    """Modules that import one another."""
    nodes = networkx.DiGraph([(a, b) for a, to in graph.items() for b in to])
    return [sorted(circle) for circle in networkx.strongly_connected_components(nodes) if len(circle) > 1]


def room(name: str, depth: int = 1) -> str:
    """The room of a module of `ptxkit.analyses`, or with more depth the family in it."""
    return ".".join(name.removeprefix("ptxkit.analyses.").split(".")[:depth])


def rooms(graph: Graph, below: str = "", depth: int = 1) -> dict[str, set[str]]:
    """Who imports whom among the rooms; with `below` and depth 2, among the families of a room."""
    prefix = f"ptxkit.analyses.{below}"
    found: dict[str, set[str]] = {}
    for name, to in graph.items():
        if name.startswith(prefix) and name.count(".") > depth + 1:
            own = found.setdefault(room(name, depth), set())
            own |= {room(other, depth) for other in to if other.startswith(prefix) and other.count(".") > depth + 1}
    return {name: to - {name} for name, to in found.items()}


def ids(every: Mapping[str, Path]) -> list[str]:
    """Ids of rules that stand as strings in modules of the analyses outside of `rules/`."""
    return [
        f"{name}: {node.value}"
        for name, path in every.items()
        if name.startswith("ptxkit.analyses.") and not name.startswith("ptxkit.analyses.rules")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ID.match(node.value)
    ]


def worklists(every: Mapping[str, Path]) -> list[str]:
    """The loops of the analyses that take from a list which they add to, or iterate until nothing changes, by module and line.

    A `while` whose condition names a list from which its body pops, or a flag that its body sets in a `for`; a `for` over a list that its
    body makes longer. Stacks that stand for a recursion are among them.
    """
    return [
        f"{name}:{node.lineno}"
        for name, path in every.items()
        if name.startswith("ptxkit.analyses.")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.While) and _is_worklist(node)) or (isinstance(node, ast.For) and _grows(node))
    ]


def _is_worklist(loop: ast.While) -> bool:
    named = {ast.unparse(node) for node in ast.walk(loop.test) if isinstance(node, ast.Name | ast.Attribute)}
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    if named & _taken_from(inside):
        return True
    repeated = [node for one in inside if isinstance(one, ast.For) for node in ast.walk(one) if isinstance(node, ast.Assign)]
    return bool(named & {ast.unparse(target) for node in repeated for target in node.targets})


def _grows(loop: ast.For) -> bool:
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    grown = {ast.unparse(node.target) for node in inside if isinstance(node, ast.AugAssign)}
    grown |= {
        ast.unparse(node.func.value)
        for node in inside
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend")
    }
    # a bounded number of steps with a list that is taken from
    is_bounded = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"
    return ast.unparse(loop.iter) in grown or (is_bounded and bool(grown & _taken_from(inside)))


def _taken_from(nodes: Iterable[ast.AST]) -> set[str]:
    """The lists from which something pops."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("pop", "popleft"):
                found.add(ast.unparse(node.func.value))
            elif node.func.attr == "heappop":
                found.add(ast.unparse(node.args[0]))
    return found


def untested(every: Mapping[str, Path]) -> list[str]:
    """The public functions of engines that no test calls by their names: what a test reaches through others only is not counted."""
    doors = _names(ast.parse(every["ptxkit.analyses"].read_text("utf-8")))
    called: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        names = _names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                first, dot, rest = ast.unparse(node.func).partition(".")
                called.add(names.get(first, "") + dot + rest)
    called |= {doors[name.removeprefix("ptxkit.analyses.")] for name in called if name.removeprefix("ptxkit.analyses.") in doors}
    return [
        f"{name}.{node.name}"
        for name, path in every.items()
        if name.startswith("ptxkit.analyses.") and room(name) in ENGINES
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and f"{name}.{node.name}" not in called
    ]


def _names(tree: ast.Module) -> dict[str, str]:
    """What a module imports: by the name that it has there, where it comes from."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def main() -> None:
    every = modules()
    graph = imports(every)
    flat = [path for folder in (ANALYSES, ANALYSES / "protocols") for path in folder.glob("*.py") if path.name != "__init__.py"]
    protocols = "ptxkit.analyses.protocols."
    print(f"modules in no room: {len(flat)}")
    print(f"import pairs of protocol modules: {pairs(graph, protocols, protocols)}, through engines too {pairs(graph, protocols)}")
    print(f"ids of rules outside of rules/: {len(ids(every))}")
    print("circles of imports:", circles(graph) or "none")
    missing = untested(every)
    print(f"public functions of engines that no test calls: {len(missing)}", *missing, sep="\n  ")
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in ANALYSES.rglob("*.py") if "rules" not in path.parts)
    print(f"lines of analyses/ without rules: {lines}")
    loops = worklists(every)
    by_room = Counter([room(one.partition(":")[0]) for one in loops])
    print(f"worklists: {len(loops)}; {', '.join(f'{name} {count}' for name, count in by_room.most_common())}")
    for name, to in sorted(rooms(graph).items()):
        print(f"  {name}: {', '.join(sorted(to))}")
    for name, to in sorted(rooms(graph, "protocols", 2).items()):
        print(f"  {name}: {', '.join(sorted(to))}")


if __name__ == "__main__":
    main()
