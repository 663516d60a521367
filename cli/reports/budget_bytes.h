/* budget_bytes.h - the bytes of a budget. It is relative to the smallest plan and keep-all, or it is a device's memory (all or
 * free) minus the reserve for the context, libraries and allocator. */
#pragma once

#include "cli/messages/quantities.h"
#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/search.h"

/* The two ends of the range of a relative budget: the smallest plan found, and keep-all. */
typedef struct budget_ends {
    int64_t peak_bytes;     /* of keep-all */
    mp_plan *smallest;      /* the smallest plan, from which a search can start; NULL: not computed */
    int64_t smallest_bytes; /* need of the smallest plan, including its arena if the command has one; -1: not computed */
} budget_ends;

/* Computes the ends for these budgets and the request's graph and problem. The smallest plan is computed only if a budget needs
 * it, with the request's searcher and a progress line. --time-limit does not shorten this search, so that the budget is the
 * same each time. Release with budget_ends_free. Errors as mp_smallest_plan. */
mp_status budget_ends_of(const budget *budgets, size_t n, const options *o, const mp_request *request, budget_ends *out,
                         mp_error *err);
void budget_ends_free(budget_ends *ends);

typedef struct device_room {
    char name[DEVICE_NAME_MAX]; /* "": unknown device, such as for a graph from another program */
    int64_t memory_bytes;
    int64_t reserve_bytes; /* --reserve, or else the device's default */
    bool is_free;          /* memory_bytes is the memory free at this moment */
} device_room;

/* Reads --memory. -1: all memory of the device, because the option was not given or is "device". Returns the exit status, with
 * an error message if the text is not a number of bytes. */
int memory_read(const options *o, int64_t *memory_bytes);
/* Each finds the memory of a device: of the graph's target, or before a graph exists, of --device. MP_UNSUPPORTED: a backend
 * missing from this build. */
void room_of_subject(const subject *s, const options *o, device_room *out);
mp_status room_of_options(const options *o, device_room *out, mp_error *err);
/* Returns the bytes available to a step: memory minus reserve, at least 0. */
int64_t room_bytes(const device_room *room);
/* Returns "the 40.00 GiB of a100 less 1.25 GiB reserve", as mp_text does. */
const char *room_text(const device_room *room);
/* Prints a note if the user's budget exceeds the device's memory for a step. */
void report_above_room(const device_room *room, int64_t budget_bytes);

/* Computes the bytes of a budget between these ends. For a device budget *room is the device's memory; otherwise it is as from
 * room_of_subject. MP_INVALID: auto without a GPU, or an unknown device. MP_INFEASIBLE: the reserve uses all memory. */
mp_status room_budget(const subject *s, const options *o, const budget *b, const budget_ends *ends, device_room *room,
                      int64_t *bytes, mp_error *err);
