/* rank_report.h - tells all ranks what each of them has measured (memplan/ranks/rank_report.h). */
#pragma once

#include "executor/run/execution.h"
#include "memplan/train.h"

/* Fills report->ranks from all ranks, which call it together, when the rest of the report is there. MP_NOMEM; MP_IO: a rank has
 * ended, or gave no answer in time. */
mp_status mp_rank_reports_exchange(const mp_train_request *request, const mp_execution *execution, mp_report *report,
                                   mp_error *err);
/* Checks that what ranks have sent can be reports: texts that end, and figures that can be added up. MP_IO: the rank. */
mp_status mp_rank_reports_check(const mp_rank_report *reports, int n, mp_error *err);
