// SPDX-License-Identifier: GPL-2.0-or-later
// What stands before the event in a line of ftrace text: task, CPU, flags, time, name of the event. Five layouts:
//
//   tracefs, atrace    COMM-TID (TGID) [CPU] FLAGS SECONDS.MICROS: EVENT: BODY      TGID and FLAGS may lack
//   trace-cmd report   COMM-TID [CPU] SECONDS.MICROS: EVENT:  BODY
//   trace-cmd -l       COMM-TID CPU FLAGS SECONDS.MICROS: EVENT:  BODY              CPU and FLAGS without a blank
//   latency-format     COMM-TID CPU FLAGS MICROSus?: EVENT: BODY                    of tracefs; ?: a mark
//   perf script        COMM TID [CPU] SECONDS.MICROS: SYSTEM:EVENT: BODY            TID may be PID/TID, COMM may lack
#pragma once

#include <cstdint>
#include <string_view>

namespace rewake::decode {

struct LineHead {
    int64_t tid = 0, ns = 0;  ///< tid < 0: the printer did not know the task
    uint32_t cpu = 0;
    uint8_t decimals = 0;    ///< digits of the time after the point; 0: a whole number, taken as ns
    bool has_flags = false;  ///< irqs, resched, interrupt, preemption
    uint8_t irq_ctx = 0;     ///< from the flags
    std::string_view event;  ///< without the system; empty: the line has none (function tracer)
    std::string_view body;
    std::string_view source;  ///< "NAME:" before a padded line: trace-cmd's name of one of several files or instances
    uint8_t lead = 0;  ///< blanks before the body that are beyond trace-cmd's padding: a name may begin with them
};

/// False: not a line of an event.
bool parse_head(std::string_view line, LineHead& head);

}  // namespace rewake::decode
