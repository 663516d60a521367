/* budget_bytes.h - the bytes of a budget: between the smallest plan and keep-all, or of a device's memory (all of it,
 * or what is free) less the reserve for what is not the step's. */
#pragma once

#include "cli/messages/quantities.h"
#include "cli/options/options.h"
#include "cli/subject/subject.h"
#include "memplan/search.h"

/* The two plans between which a relative budget lies: the smallest that is found, and keep-all. */
typedef struct budget_ends {
    int64_t peak_bytes;     /* of keep-all */
    mp_plan *smallest;      /* the smallest plan, from which a search can start; NULL: not searched for */
    int64_t smallest_bytes; /* what the smallest plan needs, with its arena if the command has one; -1: not searched for */
} budget_ends;

/* Finds the ends for these budgets and the request's graph and problem. The smallest plan is searched for if a budget
 * needs it: with the request's searcher and a line of progress. --time-limit does not cut it short, so that the budget
 * is the same each time. Release with budget_ends_free. Errors as mp_smallest_plan. */
mp_status budget_ends_of(const budget *budgets, size_t n, const options *o, const mp_request *request, budget_ends *out,
                         mp_error *err);
void budget_ends_free(budget_ends *ends);

typedef struct device_room {
    char name[DEVICE_NAME_MAX]; /* "": the device is not known, as of a graph from another program */
    int64_t memory_bytes;
    int64_t reserve_bytes; /* --reserve, else the device's own */
    bool is_free;          /* memory_bytes is the memory that is free now */
} device_room;

/* Reads --memory; -1: all that the device has, as it was not given, or is "device". Returns the exit status, with a sentence
 * for what is no number of bytes. */
int memory_read(const options *o, int64_t *memory_bytes);
/* Find the memory of the device that the graph is for, or, before there is a graph, of --device. MP_UNSUPPORTED: a
 * backend that this build lacks. */
void room_of_subject(const subject *s, const options *o, device_room *out);
mp_status room_of_options(const options *o, device_room *out, mp_error *err);
/* Returns the bytes that a step may take: the memory less the reserve, at least 0. */
int64_t room_bytes(const device_room *room);
/* Returns "the 40.00 GiB of a100 less 1.25 GiB reserve", as mp_text does. */
const char *room_text(const device_room *room);
/* Prints a sentence if the user's budget is above what the device has for a step. */
void report_above_room(const device_room *room, int64_t budget_bytes);

/* Finds the bytes of a budget between these ends; for a budget of the device also its room (else *room is as
 * room_of_subject has it). MP_INVALID: auto without a GPU, or a device that is not known. MP_INFEASIBLE: the reserve
 * takes all. */
mp_status room_budget(const subject *s, const options *o, const budget *b, const budget_ends *ends, device_room *room,
                      int64_t *bytes, mp_error *err);
