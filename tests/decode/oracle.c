// SPDX-License-Identifier: GPL-2.0-or-later
// The oracle of the decode tests: every record of a trace.dat as libtracecmd reads it, one line each, tab separated:
//   TS CPU LOST ID SYSTEM:EVENT FLAGS PID NAME=VALUE...
// CPU by CPU in file order (the test merges). LOST: events lost before it, -1 unknown. Numbers in decimal, sign as the
// format says; strings and arrays in hexadecimal. Usage: oracle FILE
#include <stdio.h>
#include <string.h>
#include <trace-cmd.h>

static void print_field(struct tep_format_field* f, struct tep_record* r) {
    unsigned long long v = 0;

    printf("\t%s=", f->name);
    if (f->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC)) {
        const unsigned char* p = (const unsigned char*)r->data + f->offset;
        unsigned int n = (unsigned int)f->size;

        if (f->flags & TEP_FIELD_IS_DYNAMIC) {
            unsigned int loc = (unsigned int)tep_read_number(f->event->tep, p, 4);
            unsigned int at = loc & 0xffff;

            n = loc >> 16;
            if (f->flags & TEP_FIELD_IS_RELATIVE) at += (unsigned int)(f->offset + f->size);
            if (at + n > (unsigned int)r->size) n = 0;
            p = (const unsigned char*)r->data + at;
        }
        for (unsigned int i = 0; i < n; i++) printf("%02x", p[i]);
        return;
    }
    if (tep_read_number_field(f, r->data, &v)) return;
    if (!(f->flags & TEP_FIELD_IS_SIGNED))
        printf("%llu", v);
    else if (f->size == 4)
        printf("%d", (int)v);
    else if (f->size == 2)
        printf("%d", (int)(short)v);
    else if (f->size == 1)
        printf("%d", (int)(signed char)v);
    else
        printf("%lld", (long long)v);
}

int main(int argc, char** argv) {
    struct tracecmd_input* handle;
    struct tep_handle* tep;

    if (argc != 2) {
        fprintf(stderr, "usage: oracle FILE\n");
        return 2;
    }
    handle = tracecmd_open(argv[1], 0);
    if (!handle) {
        fprintf(stderr, "%s: libtracecmd cannot open it\n", argv[1]);
        return 1;
    }
    tep = tracecmd_get_tep(handle);
    for (int cpu = 0; cpu < tep_get_cpus(tep); cpu++) {
        struct tep_record* r;

        while ((r = tracecmd_read_data(handle, cpu))) {
            int id = tep_data_type(tep, r);
            struct tep_event* event = tep_find_event(tep, id);

            printf("%llu\t%d\t%lld\t%d\t%s:%s\t%d\t%d", r->ts, cpu, r->missed_events, id, event ? event->system : "",
                   event ? event->name : "", tep_data_flags(tep, r), tep_data_pid(tep, r));
            for (struct tep_format_field* f = event ? event->format.fields : NULL; f; f = f->next) print_field(f, r);
            putchar('\n');
            tracecmd_free_record(r);
        }
    }
    tracecmd_close(handle);
    return 0;
}
