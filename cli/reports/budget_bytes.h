/* budget_bytes.h - computes the bytes of a budget. A budget may be relative to the smallest plan and keep-all. Or it is the
 * memory of a device (all or free) minus the reserve for the context, libraries and allocator. */
#pragma once

#include "cli/messages/quantities.h"
#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/search.h"

/* The two ends of a relative budget's range: the smallest plan found, and keep-all. */
typedef struct budget_ends {
    int64_t peak_bytes; /* peak bytes of keep-all */
    mp_plan *smallest;  /* the smallest plan, from which a search can start; NULL: not computed */
    /* bytes of memory of the smallest plan, including its arena if the command has one; -1: not computed */
    int64_t smallest_bytes;
} budget_ends;

/* Computes both ends for these budgets, with the graph and the problem of the request. The smallest plan is computed only if a
 * budget needs it, with the request's searcher and a progress line. --time-limit does not shorten this search, so that the
 * budget is always the same. Release with budget_ends_free. Errors as mp_smallest_plan. */
mp_status budget_ends_of(const budget *budgets, size_t n, const options *o, const mp_request *request, budget_ends *out,
                         mp_error *err);
void budget_ends_free(budget_ends *ends);

typedef struct device_room {
    char name[DEVICE_NAME_MAX]; /* name of the device; "": unknown, for example for a graph from another program */
    int64_t memory_bytes;
    int64_t reserve_bytes; /* bytes from --reserve; without it, the default of the device */
    bool is_free;          /* memory_bytes is the currently free memory, not all memory */
} device_room;

/* Reads --memory. *memory_bytes is -1 if the option was not given or is "device": all memory of the device. Returns the exit
 * status, with an error message if the text is not a number of bytes. */
int memory_read(const options *o, int64_t *memory_bytes);
/* Find the memory of a device. room_of_subject is about the device for which the subject's graph was built. The other function
 * is about the device of --device, before a graph exists. MP_UNSUPPORTED: the backend is missing from this build. */
void room_of_subject(const subject *s, const options *o, device_room *out);
mp_status room_of_options(const options *o, device_room *out, mp_error *err);
/* Returns the bytes available to a step: memory minus reserve, at least 0. */
int64_t room_bytes(const device_room *room);
/* Returns the text "the 40.00 GiB of a100 less 1.25 GiB reserve", which mp_text allocates. */
const char *room_text(const device_room *room);
/* Prints a note if the user's budget exceeds the device's memory minus its reserve. */
void report_above_room(const device_room *room, int64_t budget_bytes);

/* Computes the bytes of a budget, given the two ends of its range. For a device budget *room is the memory used for it;
 * otherwise *room is as from room_of_subject. MP_INVALID: auto without a GPU, or an unknown device. MP_INFEASIBLE: the reserve
 * is as large as the memory. */
mp_status room_budget(const subject *s, const options *o, const budget *b, const budget_ends *ends, device_room *room,
                      int64_t *bytes, mp_error *err);
