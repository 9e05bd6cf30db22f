"""Probe for bank conflicts: accesses of a warp to shared memory that are serialized because they need different words of one bank."""

from __future__ import annotations

from ptxkit.rewriters.engine.edits import Before
from ptxkit.rewriters.manifest import Read, Table, site_columns
from ptxkit.rewriters.probe_code import ACTIVEMASK, REDUX, apart, leading, thread_accesses, under
from ptxkit.rewriters.probing import Plan

ROW = 32
BANKS = 32


def bank_conflicts(plan: Plan, *, at: str = "") -> None:
    """Loads and stores of warps in shared memory, the passes they take, and how many of these are bank conflicts.

    There are 32 banks of 4 bytes. Wider accesses are made by half and quarter warps, each with its own passes; two of these are combined if
    throughout the warp each thread accesses the same address as its neighbor, or the next but one. Threads that access one word of a bank,
    or one wide element, do not conflict. Generic addresses count if they refer to shared memory.
    """
    if not plan.knows(REDUX) or not plan.knows(ACTIVEMASK):
        for routine in plan.routines:
            plan.refuse(routine, -1, "needs-target", "`redux.sync` needs sm_80 and PTX 7.0")
        return
    found = []
    for probed in thread_accesses(plan, ("shared", "generic"), at, plan.name("a")):
        if probed.instruction.opcode.mnemonic in ("atom", "red") or probed.access.bytes not in (1, 2, 4, 8, 16):
            plan.refuse(
                probed.routine, probed.access.instruction, "not-by-thread", "neither a load nor a store of up to 16 bytes by each thread"
            )
        else:
            found.append(probed)
    if not found:
        return
    buffer = plan.region("banks", ROW, len(found))
    a, base, sum_ = [plan.name(role) for role in ("a", "b", "s")]
    mask, copy, x, unit, phase, degree, total = [plan.name(role) for role in ("m", "c", "x", "u", "h", "d", "t")]
    here, leader, first, again = [plan.name(role) for role in ("g", "l", "f", "n")]
    for number, probed in enumerate(found):
        row = number * ROW
        width = probed.access.bytes
        assert width is not None
        words = max(1, width // 4)
        shift = (4 * words).bit_length() - 1
        groups = BANKS // words
        lines = [
            leading(leader, mask, x, base),
            apart(base, x),
            buffer.copied(base, copy),
            # the element that this thread accesses, and its part of the warp beside it
            f"shr.u64 {a}, {a}, {shift};\ncvt.u32.u64 {unit}, {a};\nmov.u32 {phase}, %laneid;",
            f"shr.u32 {phase}, {phase}, {groups.bit_length() - 1};",
            *([_pairs(unit, phase, (x, copy, total), mask, (first, again))] if words > 1 else []),
            f"shl.b32 {x}, {unit}, 2;\nor.b32 {x}, {x}, {phase};",
            f"match.any.sync.b32 {x}, {x}, {mask};\nmov.u32 {copy}, %lanemask_lt;\nand.b32 {x}, {x}, {copy};",
            f"setp.eq.u32 {first}, {x}, 0;\nvote.sync.ballot.b32 {degree}, {first}, {mask};",
            # the bank of that element: how many leading threads access it
            f"and.b32 {unit}, {unit}, {groups - 1};\nshl.b32 {unit}, {unit}, 2;\nor.b32 {unit}, {unit}, {phase};",
            f"match.any.sync.b32 {x}, {unit}, {mask};\nand.b32 {x}, {x}, {degree};\npopc.b32 {degree}, {x};",
            f"mov.u32 {total}, 0;\nmov.u32 {copy}, 0;",
        ]
        for part in range(words):
            lines.append(
                f"setp.eq.u32 {first}, {phase}, {part};\nselp.b32 {x}, {degree}, 0, {first};\nredux.sync.max.u32 {x}, {x}, {mask};"
            )
            lines.append(f"add.u32 {total}, {total}, {x};\nmin.u32 {x}, {x}, 1;\nadd.u32 {copy}, {copy}, {x};")
        lines.append(f"sub.u32 {copy}, {total}, {copy};\n@{leader} red.global.add.u64 [{base}+{row}], 1;")
        for register, offset in ((total, 8), (copy, 16)):
            lines.append(f"cvt.u64.u32 {sum_}, {register};\n@{leader} red.global.add.u64 [{base}+{row + offset}], {sum_};")
        lines.append(f"popc.b32 {x}, {mask};\ncvt.u64.u32 {sum_}, {x};\n@{leader} red.global.add.u64 [{base}+{row + 24}], {sum_};")
        body = "\n".join(lines)
        declared = f"{{ .reg .b64 {a}, {base}, {sum_}; .reg .b32 {a}_l, {mask}, {copy}, {x}, {unit}, {phase}, {degree}, {total};"
        declared += f" .reg .pred {here}, {leader}, {first}, {again};"
        begin = f"ld{buffer.space}.u64 {base}, [{buffer.words}];\n{probed.address}"
        if probed.access.space:
            code = f"{declared}\n{under(probed.guard, begin)}\n{under(probed.guard, body)} }}"
        else:
            where = under(probed.guard, f"{begin}\n!mov.pred {here}, 0;\nisspacep.shared {here}, {a};")
            code = f"{declared}\n{where}\n{under(f'@{here}', body)} }}"
        site = plan.site(probed.routine, probed.access.instruction, space=probed.space, kind=probed.kind, bytes=width)
        plan.put(Before(probed.site, probed.around(code)), site=site)


def _pairs(unit: str, phase: str, scratch: tuple[str, str, str], mask: str, tests: tuple[str, str]) -> str:
    """Code that halves the index of a thread's part of the warp where two parts are combined."""
    x, y, halved = scratch
    same, all_ = tests
    lines = [f"mov.u32 {halved}, 0;"]
    for distance in (1, 2):
        lines += [f"shfl.sync.bfly.b32 {x}, {unit}, {distance}, 31, {mask};", f"setp.eq.u32 {same}, {x}, {unit};"]
        # an inactive thread accesses nothing
        lines += [f"mov.u32 {y}, %laneid;", f"xor.b32 {y}, {y}, {distance};", f"shr.u32 {y}, {mask}, {y};", f"and.b32 {y}, {y}, 1;"]
        lines += [f"setp.eq.or.u32 {same}, {y}, 0, {same};", f"vote.sync.all.pred {all_}, {same}, {mask};"]
        lines += [f"selp.b32 {halved}, 1, {halved}, {all_};"]
    return "\n".join([*lines, f"shr.u32 {phase}, {phase}, {halved};"])


def decode(found: Read) -> list[Table]:
    """The table `bank-conflicts`: a row for each access. `passes` are all that it takes, `conflicts` those beyond one for each part."""
    if not found.use.regions:
        return []
    sums = found.sums("banks")
    columns = site_columns(found.sites)
    for name in ("space", "kind", "bytes"):
        columns[name] = [site.details[name] for site in found.sites]
    for at, name in enumerate(("requests", "passes", "conflicts", "threads")):
        columns[name] = list(sums[at :: ROW // 8])
    units = {"bytes": "bytes", "requests": "warps", "passes": "passes", "conflicts": "passes", "threads": "threads"}
    return [found.table("bank-conflicts", columns, units)]
