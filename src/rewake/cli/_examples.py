# SPDX-License-Identifier: GPL-2.0-or-later
"""Examples at the end of every command's help: lines to type, each with what it is for. A test parses all of them."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "advise": (
        ("rewake advise a.rewake b.rewake --judge c.rewake -o rules.toml", "hints that lower the p99"),
        ("rewake advise runs/ --objective cross-llc --guard p99+5%", "the later half of runs/ judges"),
        ("rewake advise a.rewake b.rewake --trials 0 --sweep features", "scheduler features, no hints"),
        ("rewake advise a.rewake b.rewake --trials 0 --sweep wakeup-buddy@linux-6.1:ref=1,4,16", "a parameter"),
    ),
    "compare": (
        ("rewake compare before/ after/", "runs of the same recordings, what changed"),
        ("rewake compare before/ after/ --fail-on p99+5%", "a gate: exit 3 only on that"),
        ("rewake compare a/ b/ --unpaired --policy recorded", "repeats of one load on two kernels"),
    ),
    "dashboard": (
        ("rewake dashboard --store figures -o site", "a site of what the store holds"),
        ("rewake dashboard --store fleet -o site", "a site of what rewake fleet run filled"),
    ),
    "check": (("rewake check trace.dat", "every threshold with its value"),),
    "doctor": (("rewake doctor", "what can be recorded here, and what is missing"),),
    "explain": (
        ("rewake explain trace.dat --decision 1000", "what was seen, and every policy's steps"),
        ("rewake explain trace.dat --decision 1000 --policy wakeup-buddy", "one policy"),
    ),
    "export": (
        ("rewake export mine.run --perfetto mine.pftrace", "open it in ui.perfetto.dev"),
        ("rewake export mine.run --perfetto mine.pftrace --window 2s..5s", "three seconds of it"),
    ),
    "fidelity": (
        ("rewake fidelity trace.dat", "rule by rule"),
        ("rewake fidelity trace.dat --identify", "which kernel do the choices look like?"),
        ("rewake fidelity trace.dat --min-skill 0.7", "exit 5 below that, for scripts"),
    ),
    "fleet": (
        ("rewake fleet run traces/ --policy idle-thread-scan -o fleet", "all traces below a directory"),
        ("rewake fleet report fleet", "where the policy wins, and where it loses"),
    ),
    "fleet run": (
        ("rewake fleet run traces/ --policy idle-thread-scan -o fleet", "all CPUs of this machine"),
        ("rewake fleet run prod.list -o s3://bucket/fleet --engine dask --address tcp://head:8786", "a cluster"),
        ("rewake fleet run 'nights/*/trace.dat' --policy auto -o fleet --max-failed 5%", "a gate on broken traces"),
    ),
    "fleet report": (
        ("rewake fleet report fleet", "every policy against each recording's own kernel"),
        ("rewake fleet report fleet --versus recorded --metric p99", "p99 against what was recorded"),
        ("rewake fleet report fleet --format parquet > groups.parquet", "by machine, kernel, workload, cgroup, month"),
    ),
    "import": (
        ("rewake import trace.dat -o mine.rewake", "topology.tar.gz beside the trace is found"),
        ("rewake import trace.dat --topology 'pack:2 l3:8 core:8 pu:2'", "a machine in words"),
    ),
    "simulate": (
        ("rewake simulate trace.dat --policy idle-thread-scan", "the machine re-run with it in charge"),
        ("rewake simulate trace.dat --pin", "does the model reproduce the recording?"),
    ),
    "validate": (("rewake validate a.dat b.dat", "B predicted from A, beside what B was"),),
    "slice": (
        ("rewake slice mine.rewake --window 2s..5s -o part.rewake", "three seconds, ids as they were"),
        ("rewake slice mine.rewake --redact key.txt -o sendable.rewake", "names replaced under a key"),
    ),
    "store": (("rewake store add nightly.run --store figures --date 2026-11-20", "its figures, for trend"),),
    "store add": (("rewake store add nightly.run --store figures --date 2026-11-20", "once; again changes nothing"),),
    "topology": (("rewake topology show trace.dat", "nodes, LLCs, cores and CPUs of the machine"),),
    "topology show": (
        ("rewake topology show trace.dat", "of a trace or recording"),
        ("rewake topology show 'pack:2 l3:8 core:8 pu:2'", "a machine in words"),
    ),
    "trend": (("rewake trend --store figures", "where histories changed; exit 3 while something is worse"),),
    "info": (("rewake info trace.dat", "events, losses, span, CPUs, kernel"),),
    "policies": (
        ("rewake policies list", "what can be replayed"),
        ("rewake policies show idle-thread-scan", "origin, steps and parameters of one"),
    ),
    "policies check": (("rewake policies check fixtures/oracle/v6.1.sis.jsonl.zst", "against a build of that kernel"),),
    "policies list": (("rewake policies list --format json", "for programs"),),
    "policies new": (("rewake policies new spread", "a policy of your own in ./spread"),),
    "policies show": (
        ("rewake policies show linux-6.12", "a mainline kernel"),
        ("rewake policies show irq-aware@linux-6.12", "a posting on another kernel"),
    ),
    "query": (
        ("rewake query --list", "the questions that ship"),
        ("rewake query mine.run moves/one_step", "one of them"),
        ("rewake query mine.run moves/one_step --format parquet > moves.parquet", "for other tools"),
        ("rewake query trace.dat 'SELECT count(*) FROM decision'", "any SQL"),
    ),
    "record": (
        ("rewake record --duration 10s -o mine.rewake", "this machine, for ten seconds"),
        ("rewake record -o mine.rewake -- make -j8", "while a command runs"),
        ("rewake record --emit-script", "a script for a machine without rewake"),
    ),
    "replay": (
        ("rewake replay trace.dat", "import, replay, print the table"),
        ("rewake replay trace.dat --policy linux-6.12 --policy idle-thread-scan", "these two"),
        ("rewake replay trace.dat --policy wakeup-buddy:ref=1..8 -o buddies.run", "a parameter, eight times"),
    ),
    "report": (
        ("rewake report mine.run", "the table again"),
        ("rewake report mine.run --html report.html", "with charts, as one file"),
        ("rewake report mine.run --format markdown", "for a mail or a comment"),
        ("rewake report mine.run --format parquet > report.parquet", "for other tools"),
    ),
}  # fmt: skip
"""By command, a subcommand behind its group's name."""


_ROOM = 90
"""Columns that an example and its comment may share."""


def add(command: click.Command, name: str) -> None:
    """Puts the examples of a command, and of its subcommands, behind its help."""
    if lines := EXAMPLES.get(name):
        widest = max(len(line) for line, _ in lines)
        beside = widest + max(len(what) for _, what in lines) <= _ROOM
        told = [f"  {line:<{widest}}  # {what}" if beside else f"  # {what}\n  {line}" for line, what in lines]
        command.epilog = "\b\nExamples:\n" + "\n".join(told)
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            add(inner, f"{name} {part}")
