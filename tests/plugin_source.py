# SPDX-License-Identifier: GPL-2.0-or-later
"""Plugins for tests, compiled on the spot."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rewake.replay import plugins

WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Wshadow", "-Wstrict-prototypes", "-Werror")

SHELL = """
#include "rewake_policy.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
@GLOBAL@
static int32_t decide(void *self, const struct rewake_host *h, struct rewake_decision *d) {
    const int64_t id = h->wakeup(d)->id;
    const int32_t prev = h->wakeup(d)->prev_cpu;
    (void)self; (void)id; (void)prev;
    @DECIDE@
}
const struct rewake_policy *rewake_policy_v1(void) {
    static const struct rewake_policy p = {
        @SIZE@, @VERSION@, "shell", NULL, "for a test", NULL, @BASE@, @KINDS@, NULL, NULL,
        @CREATE@, @FUNCTION@, @FORK@, @IDLE@, @DESTROY@};
    return @RESULT@;
}
"""
PARTS = {
    "GLOBAL": "", "DECIDE": "return prev;", "SIZE": "sizeof(struct rewake_policy)", "VERSION": "REWAKE_POLICY_ABI",
    "BASE": '"linux-6.1"', "KINDS": "1", "CREATE": "NULL", "FUNCTION": "decide", "FORK": "NULL", "IDLE": "NULL",
    "DESTROY": "NULL", "RESULT": "&p",
}  # fmt: skip


def compile_c(source: Path, *options: str) -> Path:
    """The shared object beside `source`."""
    built = source.with_suffix(".so")
    command = ["cc", "-std=c99", *options, "-shared", "-fPIC", "-I", plugins.HEADER.parent, "-o", built, source]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return built


def shell(folder: Path, decide: str = PARTS["DECIDE"], **parts: str) -> str:
    """The path of a plugin that stays at prev, but for what the test puts in (capitals: PARTS)."""
    text = SHELL
    for name, value in {**PARTS, "DECIDE": decide, **parts}.items():
        text = text.replace(f"@{name}@", value)
    folder.mkdir(exist_ok=True)
    source = folder / "shell.c"
    source.write_text(text)
    return str(compile_c(source))


def template(folder: Path) -> str:
    """The path of the template, compiled as it is."""
    return str(compile_c(plugins.scaffold("mine", folder)[0], "-O2", *WARNINGS))
