// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <nanobind/nanobind.h>

/// policies(): what exists, for `policies list | show`; branch_names(): names of the ledger's branch codes.
void bind_policies(nanobind::module_& m);
/// Oracle: runs conformance vectors (replay/conformance.py reads the files and compares).
void bind_conformance(nanobind::module_& m);
