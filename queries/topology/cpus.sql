-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which CPUs does the machine have, and in which order do its packages, nodes, LLCs and cores hold them?
-- Definition: Table cpu in the order of the machine: CPUs that share a package, in it a node, an LLC, a cluster and
--   a core, stand together. Packages and nodes have the kernel's numbers, the others that of their lowest CPU.
-- Units: capacity: 1024 is the largest of the machine.
-- Requires: cpu
-- Columns:
--   position: 0 for the first CPU in this order
--   cpu: CPU
--   package: its package; NULL: unknown
--   node: its NUMA node; NULL: unknown
--   llc: its last-level cache; NULL: unknown
--   cluster: its cluster; NULL: unknown or none
--   core: its core; NULL: unknown
--   capacity: its capacity; NULL: unknown
SELECT
    row_number() OVER (ORDER BY package, node, llc, cluster, core, cpu) - 1 AS position,
    cpu,
    package,
    node,
    llc,
    cluster,
    core,
    capacity
FROM cpu
ORDER BY position
