# SPDX-License-Identifier: GPL-2.0-or-later
"""Recording a live machine: what to ask the kernel for, and thin runners around the tools that ask it."""
