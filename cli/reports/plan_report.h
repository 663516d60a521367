/* plan_report.h - what `memplan plan` says about what it found. */
#ifndef CLI_PLAN_REPORT_H
#define CLI_PLAN_REPORT_H

#include "cli/reports/subject.h"
#include "memplan/floor.h"
#include "memplan/second_stream.h"
#include "memplan/solver.h"

typedef struct outcome {
    subject subject;
    mp_timeline *keep_all;
    int64_t budget_bytes; /* -1: none */
    int64_t floor_bytes;
    mp_floor_reason floor_reason;
    mp_answer answer;
    bool has_second_stream; /* it was asked for, and there is a plan */
    mp_second_stream second_stream;
    double planning_seconds;
    bool explains_bound;
    unsigned stages_off; /* as in mp_bound_options.off */
} outcome;

mp_status print_plan(const outcome *out, mp_error *err);
mp_status print_plan_json(const outcome *out, mp_error *err);

#endif
