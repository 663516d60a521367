/* rank_report.h - exchanges the measurements of all ranks (memplan/ranks/rank_report.h). */
#pragma once

#include "executor/run/execution.h"
#include "memplan/train.h"

/* Fills report->ranks with the reports of all ranks. All ranks call this function after they have completed the rest of the
 * report. MP_NOMEM; MP_IO: a rank has ended or did not answer in time. */
mp_status mp_rank_reports_exchange(const mp_train_request *request, const mp_execution *execution, mp_report *report,
                                   mp_error *err);
/* Checks that received reports are valid: strings are terminated, and numbers can be summed. MP_IO: the message names the rank.
 */
mp_status mp_rank_reports_check(const mp_rank_report *reports, int n, mp_error *err);
