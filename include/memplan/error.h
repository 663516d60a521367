/* error.h - how every function of memplan reports errors.
 *
 * A function that can fail returns an mp_status and takes an mp_error as its last parameter, which may be NULL. On failure its
 * other outputs are untouched. The library never prints, exits or aborts: only cli/ writes messages for users.
 *
 * A function may return at any point. If local variables are declared with the owner macros of memory.h, their objects are
 * released on return:
 *
 *     // given: const mp_graph *graph; mp_plan **out; mp_error *err
 *     MP_OWNED_BY(mp_plan_free) mp_plan *plan = NULL;
 *     MP_ENSURE(graph->n_nodes > 0, err, MP_INVALID, "%s has no nodes", graph->name); // returns MP_INVALID if it has none
 *     MP_CHECK(mp_plan_read("plan.json", graph, &plan, err));                         // returns the status of a failure
 *     *out = plan, plan = NULL;                                                       // the caller owns the plan now
 *     return MP_OK;
 */
#pragma once

#define MP_STATUS_LIST(X)                             \
    X(OK, "success")                                  \
    X(NOMEM, "out of memory")                         \
    X(PARSE, "malformed input")                       \
    X(INVALID, "invalid argument")                    \
    X(UNSUPPORTED, "not supported")                   \
    X(INFEASIBLE, "the budget is too small")          \
    X(NOT_APPLICABLE, "not applicable to this graph") \
    X(LIMIT, "limit reached")                         \
    X(IO, "input/output error")                       \
    X(REFUTED, "the claim does not hold")

#define MP_STATUS_ENUM(name, text) MP_##name,
typedef enum mp_status { MP_STATUS_LIST(MP_STATUS_ENUM) MP_N_STATUS } mp_status;
#undef MP_STATUS_ENUM

/* A failure. `message` is one sentence without a full stop that names the operator or tensor. `input` is the file concerned (""
 * if none). `line` and `column` are the position in that file, 1-based (0: unknown). `source` and `source_line` are the
 * position in memplan's own source code. */
typedef struct mp_error {
    mp_status code;
    const char *source;
    int source_line;
    char input[256];
    int line, column;
    char message[512];
} mp_error;

/* The fixed English text of a status: "malformed input". Never NULL. */
const char *mp_status_text(mp_status status);

/* Records a failure in *err (NULL is allowed). Only the first failure is kept, so a later failure cannot hide the cause.
 * Returns `code`. MP_OK in err->code means that no failure is recorded; an mp_error therefore starts as {0}. Reentrant. */
mp_status mp_raise(mp_error *err, mp_status code, const char *source, int source_line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Adds the name and position of an input file to a recorded failure, unless the failure already has them. */
void mp_error_locate(mp_error *err, const char *input, int line, int column);

/* A local variable that adds the file's name to errors. MP_ABOUT declares it in a function that processes a file. If the
 * function fails, the error then names the file. */
typedef struct mp_error_about {
    mp_error *err;
    const char *path;
} mp_error_about;
static inline void mp_error_end_about(const mp_error_about *about)
{
    mp_error_locate(about->err, about->path, 0, 0);
}
#define MP_ABOUT(err, path) __attribute__((unused, cleanup(mp_error_end_about))) const mp_error_about about_ = {(err), (path)}

#define MP_FAIL(err, code, ...) mp_raise((err), (code), __FILE__, __LINE__, __VA_ARGS__)
#define MP_NO_MEMORY(err) MP_FAIL(err, MP_NOMEM, "out of memory")
/* Like MP_FAIL, but also records a position in a file. */
#define MP_FAIL_AT(err, code, input, line, column, ...) \
    (MP_FAIL(err, code, __VA_ARGS__), mp_error_locate(err, input, line, column), (code))

/* Macros for functions that return an mp_status. If the call fails or the condition is false, the macro returns from the
 * calling function. */
#define MP_CHECK(call)                        \
    do {                                      \
        const mp_status status_ = (call);     \
        if (status_ != MP_OK) return status_; \
    } while (0)
#define MP_ENSURE(condition, err, code, ...)                      \
    do {                                                          \
        if (!(condition)) return MP_FAIL(err, code, __VA_ARGS__); \
    } while (0)
