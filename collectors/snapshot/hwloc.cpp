// SPDX-License-Identifier: GPL-2.0-or-later
// Extension module rewake.collectors._hwloc: one hwloc topology as plain values.
// It parses files of foreign origin, so it is only ever loaded in the child process of child.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <hwloc.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace {

struct Destroy {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyPtr = std::unique_ptr<hwloc_topology, Destroy>;

void check(int rc, const char* what) {
    if (rc < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

/// Lowest CPU number below `object`; None without object.
nb::object first_cpu(hwloc_obj_t object) {
    if (!object || !object->cpuset || hwloc_bitmap_iszero(object->cpuset)) return nb::none();
    return nb::int_(hwloc_bitmap_first(object->cpuset));
}

/// Number the operating system gives `object`, its logical index where it gives none.
nb::object number(hwloc_obj_t object) {
    if (!object) return nb::none();
    return nb::int_(object->os_index == HWLOC_UNKNOWN_INDEX ? object->logical_index : object->os_index);
}

/// NUMA node that has `pu` in its local CPUs; the lowest number when there are several (HBM beside DRAM).
nb::object node_of(hwloc_obj_t pu) {
    if (!pu->nodeset || hwloc_bitmap_iszero(pu->nodeset)) return nb::none();
    return nb::int_(hwloc_bitmap_first(pu->nodeset));
}

/// `distances[i][j]` between `nodes[i]` and `nodes[j]` as the firmware states them (10 = local); nothing when absent.
void add_distances(hwloc_topology_t topology, nb::dict& out) {
    unsigned count = 1;
    hwloc_distances_s* matrix = nullptr;
    const unsigned long kind = HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY;
    if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &matrix, kind, 0) < 0 || count == 0) return;
    nb::list nodes, rows;
    for (unsigned i = 0; i < matrix->nbobjs; ++i) {
        nodes.append(number(matrix->objs[i]));
        nb::list row;
        for (unsigned j = 0; j < matrix->nbobjs; ++j) row.append(nb::int_(matrix->values[i * matrix->nbobjs + j]));
        rows.append(row);
    }
    hwloc_distances_release(topology, matrix);
    out["nodes"] = nodes;
    out["distances"] = rows;
}

/// kind: "fsroot" (HWLOC_FSROOT is in the environment), "xml" or "synthetic" (`text` holds it).
/// Result: `pus` = rows (cpu, core, l3, l2, package, node), groups named by their lowest CPU, packages and nodes by number;
/// `nodes` and `distances` where known; `xml` = the topology as hwloc XML. Raises RuntimeError.
nb::dict read_topology(const std::string& kind, const std::string& text) {
    hwloc_topology_t raw = nullptr;
    check(hwloc_topology_init(&raw), "hwloc_topology_init");
    const TopologyPtr topology(raw);
    // CPUs that a cgroup kept from the process that took the snapshot still belong to the machine.
    check(hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED), "hwloc_topology_set_flags");
    if (kind == "xml") {
        check(hwloc_topology_set_xmlbuffer(raw, text.c_str(), static_cast<int>(text.size()) + 1), "not an lstopo XML");
    } else if (kind == "synthetic") {
        check(hwloc_topology_set_synthetic(raw, text.c_str()), "not a synthetic topology");
    } else if (kind != "fsroot") {
        throw std::runtime_error("unknown kind of topology: " + kind);
    }
    check(hwloc_topology_load(raw), "hwloc cannot load it");

    nb::list pus;
    for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_PU, pu));) {
        const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(raw, HWLOC_OBJ_CORE, pu);
        pus.append(nb::make_tuple(pu->os_index, first_cpu(core ? core : pu),
                                  first_cpu(hwloc_get_ancestor_obj_by_type(raw, HWLOC_OBJ_L3CACHE, pu)),
                                  first_cpu(hwloc_get_ancestor_obj_by_type(raw, HWLOC_OBJ_L2CACHE, pu)),
                                  number(hwloc_get_ancestor_obj_by_type(raw, HWLOC_OBJ_PACKAGE, pu)), node_of(pu)));
    }
    nb::dict out;
    out["pus"] = pus;
    add_distances(raw, out);

    char* buffer = nullptr;
    int length = 0;
    check(hwloc_topology_export_xmlbuffer(raw, &buffer, &length, 0), "hwloc_topology_export_xmlbuffer");
    out["xml"] = nb::bytes(buffer, static_cast<size_t>(length > 0 ? length - 1 : 0));
    hwloc_free_xmlbuffer(raw, buffer);
    return out;
}

}  // namespace

NB_MODULE(_hwloc, m) {
    m.doc() = "hwloc topologies as plain values; loaded in a child process only";
    m.def("read_topology", &read_topology, nb::arg("kind"), nb::arg("text"));
}
