/* apply_report.h - a plan in the words of a framework: what to paste there, and what it comes to. */
#pragma once

#include <stdio.h>

#include "cli/subject/subject.h"
#include "memplan/plan.h"

typedef struct applied_means {
    bool fits;          /* within the plan's budget */
    int64_t peak_bytes; /* of the framework's means; of the smallest there is where none fits */
    int64_t ticks;      /* of a step with it; -1: none fits */
} applied_means;

/* Prints the lines for the subject's plan and a framework of --for. found->fits false: what the framework can do does not fit
 * the plan's budget, which is said in place of lines to paste. MP_NOT_APPLICABLE: the network has no modules or blocks that the
 * framework could take, or no backward phase. MP_NOMEM. */
mp_status report_apply(const subject *s, const char *framework, FILE *to, applied_means *found, mp_error *err);
