/* budget_bytes.h - converts budgets to bytes. A budget is a number of bytes, or relative to the smallest plan and keep-all, or
 * relative to the memory of a device. In the last case it is all memory, or the free memory, minus the reserve for the context,
 * libraries and allocator. */
#pragma once

#include "cli/messages/quantities.h"
#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/search.h"

/* The two values to which a relative budget refers: the memory of the smallest plan found, and the peak of keep-all. */
typedef struct budget_ends {
    int64_t peak_bytes; /* peak bytes of keep-all */
    mp_plan *smallest;  /* the smallest plan, from which the search may start; NULL: it was not needed */
    /* bytes that the smallest plan needs, with its arena if the command assigns offsets; -1: it was not needed */
    int64_t smallest_bytes;
} budget_ends;

/* Computes the two values to which these budgets refer, for the graph and the problem of the request. The smallest plan is
 * computed only if a budget refers to it, with the request's searcher and a progress line. --time-limit does not shorten this
 * search, so that a budget always has the same bytes. Release with budget_ends_free. Errors as mp_smallest_plan. */
mp_status budget_ends_of(const budget *budgets, size_t n, const options *o, const mp_request *request, budget_ends *out,
                         mp_error *err);
void budget_ends_free(budget_ends *ends);

typedef struct device_room {
    /* name of the device; "": the device is unknown, for example for a graph from another program */
    char name[DEVICE_NAME_MAX];
    int64_t memory_bytes;
    int64_t reserve_bytes; /* the value of --reserve in bytes; if it was not given, the default of the device */
    bool is_free;          /* memory_bytes is the memory that is free at present, and not all memory of the device */
} device_room;

/* Reads --memory. *memory_bytes is -1 if the option was not given, or if its value is "device", which means all memory of the
 * device. Returns the exit status, with an error message if the value is no number of bytes. */
int memory_read(const options *o, int64_t *memory_bytes);
/* Return the memory of a device. room_of_subject uses the device for which the subject's graph was built. room_of_options uses
 * the device of --device, and needs no graph. MP_UNSUPPORTED: the backend of the device is missing in this build. */
void room_of_subject(const subject *s, const options *o, device_room *out);
mp_status room_of_options(const options *o, device_room *out, mp_error *err);
/* Returns the bytes that a training step may use: the memory of the device minus the reserve, at least 0. */
int64_t room_bytes(const device_room *room);
/* Returns the text "the 40.00 GiB of a100 less 1.25 GiB reserve", which mp_text allocates. */
const char *room_text(const device_room *room);
/* Prints a note if the user's budget is larger than the device's memory minus the reserve. */
void report_above_room(const device_room *room, int64_t budget_bytes);

/* Computes the bytes of a budget, given the two values to which a relative budget refers. For a budget relative to the device,
 * *room is the memory that was used; otherwise it is the result of room_of_subject. MP_INVALID: auto without a GPU, or an
 * unknown device. MP_INFEASIBLE: the reserve is at least as large as the memory. */
mp_status room_budget(const subject *s, const options *o, const budget *b, const budget_ends *ends, device_room *room,
                      int64_t *bytes, mp_error *err);
