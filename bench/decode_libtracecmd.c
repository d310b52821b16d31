// SPDX-License-Identifier: GPL-2.0-or-later
// performance.md row 1b: the peer, a plain C loop on libtracecmd: all CPUs merged, three fields a record.
// Usage: decode_libtracecmd FILE
#include <stdio.h>
#include <trace-cmd.h>

struct event_fields {
    struct tep_format_field* field[3];
    int looked_up;
};

static struct event_fields fields[65536];
static unsigned long long events, sum;

static int visit(struct tracecmd_input* handle, struct tep_record* record, int cpu, void* unused) {
    struct tep_handle* tep = tracecmd_get_tep(handle);
    int id = tep_data_type(tep, record);
    struct event_fields* f = &fields[id & 0xffff];

    (void)cpu;
    (void)unused;
    if (!f->looked_up) {
        struct tep_event* event = tep_find_event(tep, id);
        struct tep_format_field* field = event ? event->format.fields : NULL;
        int n = 0;

        for (; field && n < 3; field = field->next)
            if (!(field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC))) f->field[n++] = field;
        f->looked_up = 1;
    }
    for (int i = 0; i < 3; i++) {
        unsigned long long value;

        if (f->field[i] && tep_read_number_field(f->field[i], record->data, &value) == 0) sum += value;
    }
    events++;
    return 0;
}

int main(int argc, char** argv) {
    struct tracecmd_input* handle;

    if (argc != 2) {
        fprintf(stderr, "usage: decode_libtracecmd FILE\n");
        return 2;
    }
    handle = tracecmd_open(argv[1], 0);
    if (!handle) {
        fprintf(stderr, "%s: libtracecmd cannot open it\n", argv[1]);
        return 1;
    }
    tracecmd_iterate_events(handle, NULL, 0, visit, NULL);
    printf("events %llu sum %llu\n", events, sum);
    tracecmd_close(handle);
    return 0;
}
