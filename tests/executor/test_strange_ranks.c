/* test_strange_ranks.c - a rank's response to other ranks that send too little, too much or wrong data. It reports a sentence
 * with the rank's number, reads no unsent bytes, and never allocates a claimed size unchecked. A test communicator replaces
 * MPI: each other rank sends the prepared messages of a case. */
#include <sys/resource.h>

#include "executor/ranks/exchanges.h"
#include "executor/ranks/network_speed.h"
#include "executor/ranks/peers.h"
#include "executor/train/rank_report.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"

enum { RANKS = 3, MESSAGES = 4, ROOMS = 16, STRANGER = 1 };
#define OTHER_VERSION "it runs another program, or another version of this one"

typedef struct message {
    const void *bytes;
    int64_t n;
} message;

/* The rank under test, of three, and the messages that the other ranks send to it. */
typedef struct stage {
    mp_communicator world;
    message sent[RANKS][MESSAGES];
    int next[RANKS];
    struct {
        void *to;
        int64_t room;
        int from;
    } rooms[ROOMS]; /* pending receives; message number k + 1 is entry k */
    mp_message n;
} stage;

static mp_status send(mp_communicator *self, const void *from, int64_t bytes, int to, int tag, mp_message *out, mp_error *err)
{
    stage *s = self->context;
    (void)from, (void)bytes, (void)tag, (void)err;
    assert_true(to >= 0 && to != self->rank && to < RANKS && s->n < ROOMS);
    s->rooms[s->n].to = NULL;
    *out = ++s->n;
    return MP_OK;
}

static mp_status receive(mp_communicator *self, void *to, int64_t bytes, int from, int tag, mp_message *out, mp_error *err)
{
    stage *s = self->context;
    (void)tag, (void)err;
    assert_true(from >= 0 && from != self->rank && from < RANKS && s->n < ROOMS);
    s->rooms[s->n].to = to;
    s->rooms[s->n].room = bytes;
    s->rooms[s->n].from = from;
    *out = ++s->n;
    return MP_OK;
}

static mp_status probe(mp_communicator *self, int from, int tag, int64_t *bytes, mp_error *err)
{
    stage *s = self->context;
    (void)tag, (void)err;
    assert_true(s->next[from] < MESSAGES);
    const message *m = &s->sent[from][s->next[from]];
    *bytes = m->bytes ? m->n : -1;
    return MP_OK;
}

/* A library's own sum, for which one rank sends too much. */
static mp_status all_reduce(mp_communicator *self, mp_dtype dtype, void *values, int64_t n, mp_message *out, mp_error *err)
{
    (void)dtype;
    return receive(self, values, n * (int64_t)sizeof(float), STRANGER, 0, out, err);
}

/* Like MPI, truncates a message at the end of its buffer. The byte count of a sent message is meaningless. */
static mp_status test(mp_communicator *self, mp_message *number, bool *done, int64_t *arrived, mp_error *err)
{
    stage *s = self->context;
    const mp_message k = *number - 1;
    (void)err;
    *done = true;
    *arrived = 0;
    if (s->rooms[k].to) {
        const int from = s->rooms[k].from;
        assert_true(s->next[from] < MESSAGES);
        const message *m = &s->sent[from][s->next[from]];
        *done = m->bytes;
        if (!*done) return MP_OK; /* never arrives */
        s->next[from]++;
        memcpy(s->rooms[k].to, m->bytes, (size_t)(m->n < s->rooms[k].room ? m->n : s->rooms[k].room));
        *arrived = m->n > s->rooms[k].room ? MP_MESSAGE_TOO_LONG : m->n;
    }
    *number = 0;
    return MP_OK;
}

static void begin(stage *s)
{
    static mp_awaited open[2 * RANKS];
    memset(open, 0, sizeof open);
    *s = (stage){.world = {.n = RANKS,
                           .open = open,
                           .send = send,
                           .receive = receive,
                           .probe = probe,
                           .all_reduce = all_reduce,
                           .test = test}};
    s->world.context = s;
}

static void fails(mp_status got, mp_status wanted, const mp_error *err, const char *sentence)
{
    if (got != wanted || !strstr(err->message, sentence))
        fail_msg("status %d with '%s', and not %d with '%s'", (int)got, err->message, (int)wanted, sentence);
}

/* ---- joining ---- */

static mp_peer peer(const char *program, int64_t process)
{
    mp_peer p = {.process = process, .machine = "elsewhere", .host = "node7"};
    snprintf(p.program, sizeof p.program, "%s", program);
    return p;
}

static mp_status join(stage *s, mp_error *err)
{
    const mp_peer self = mp_peer_self();
    mp_peer list[RANKS];
    const mp_peers all = {.list = list};
    MP_CHECK(mp_communicator_exchange(&s->world, &self, sizeof self, list, 0.1, "joining", err));
    return mp_peers_check(&all, RANKS, err);
}

TEST(who_joins_is_of_this_version_and_says_who_it_is)
{
    static char noise[4096];
    const mp_peer good = peer("memplan " MEMPLAN_VERSION, 4711), newer = peer("memplan 9.0.0", 4711), none = peer("", 4711),
                  other = peer("horovod 0.28", 1), zero = peer("memplan " MEMPLAN_VERSION, 0);
    mp_peer endless = good, painted = good, unending = good;
    memset(noise, 0xA5, sizeof noise);
    memset(endless.machine, 'x', sizeof endless.machine);
    memcpy(painted.host, "\033[2Jnode7", 10);
    memset(unending.program + 8, '1', sizeof unending.program - 8);
    const struct {
        message sent;
        mp_status status;
        const char *sentence;
    } cases[] = {
        {{&good, sizeof good}, MP_OK, ""},
        {{&good, sizeof good - 16}, MP_IO, "rank 1 of 3 has sent 264 bytes in joining instead of 280: " OTHER_VERSION},
        {{&good, 0}, MP_IO, "rank 1 of 3 has sent 0 bytes in joining instead of 280"},
        {{noise, sizeof noise}, MP_IO, "rank 1 of 3 has sent 4096 bytes in joining instead of 280: " OTHER_VERSION},
        {{noise, sizeof good}, MP_INVALID, "rank 1 of 3 does not run memplan " MEMPLAN_VERSION ": its first message has"},
        {{&newer, sizeof newer}, MP_INVALID, "rank 1 of 3 runs memplan 9.0.0, but rank 0 runs memplan " MEMPLAN_VERSION},
        {{&none, sizeof none}, MP_INVALID, "rank 1 of 3 does not run memplan"},
        {{&other, sizeof other}, MP_INVALID, "rank 1 of 3 does not run memplan"},
        {{&unending, sizeof unending}, MP_INVALID, "rank 1 of 3 does not run memplan"},
        {{&zero, sizeof zero}, MP_INVALID, "rank 1 of 3 has not sent its process and machine"},
        {{&endless, sizeof endless}, MP_INVALID, "rank 1 of 3 has not sent its process"},
        {{&painted, sizeof painted}, MP_INVALID, "rank 1 of 3 has not sent its process"},
        {{NULL, 0}, MP_IO, "rank 1 of 3, on an unknown machine, has not answered in joining for 0.1 s"},
    };
    assert_int_equal(sizeof good, 280);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        stage s;
        mp_error err = {0};
        begin(&s);
        s.sent[STRANGER][0] = cases[k].sent;
        s.sent[2][0] = (message){&good, sizeof good};
        fails(join(&s, &err), cases[k].status, &err, cases[k].sentence);
    }
}

/* ---- before the first step ---- */

/* Facts are compared by hashes of eight bytes each. Notes rank 0's hashes when it sends them. */
static uint64_t noted[3];
static mp_status note(mp_communicator *self, const void *from, int64_t bytes, int to, int tag, mp_message *out, mp_error *err)
{
    assert_int_equal(bytes, sizeof noted);
    memcpy(noted, from, sizeof noted);
    return send(self, from, bytes, to, tag, out, err);
}

TEST(facts_of_others_are_compared_if_they_are_as_many)
{
    const double hyper[] = {0.1, 0.9};
    const mp_fact facts[] = {
        {"plan", "steps", 5}, {"set of data (--data)", "data", 4}, {"set of training options", hyper, sizeof hyper}};
    uint64_t more[4] = {0}, other[3];
    const struct {
        message sent;
        int differs; /* index of a fact in `other`; -1: none */
        mp_status status;
        const char *sentence;
    } cases[] = {
        {{noted, sizeof noted}, -1, MP_OK, ""},
        {{noted, 16}, -1, MP_IO, "rank 1 of 3 has sent 16 bytes in the first comparison instead of 24: " OTHER_VERSION},
        {{more, sizeof more}, -1, MP_IO, "rank 1 of 3 has sent 32 bytes in the first comparison instead of 24"},
        {{other, sizeof other}, 0, MP_INVALID, "rank 1 of 3 has another plan than rank 0"},
        {{other, sizeof other}, 1, MP_INVALID, "rank 1 of 3 has another set of data (--data) than rank 0"},
        {{other, sizeof other}, 2, MP_INVALID, "rank 1 of 3 has another set of training options than rank 0"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        stage s;
        mp_error err = {0};
        begin(&s);
        s.world.send = note;
        for (int pass = 0; pass < 2; pass++) { /* the first pass records the right hashes */
            s.n = s.next[STRANGER] = s.next[2] = 0;
            memcpy(other, noted, sizeof other);
            if (cases[k].differs >= 0) other[cases[k].differs] ^= 1;
            s.sent[STRANGER][0] = pass ? cases[k].sent : (message){noted, sizeof noted};
            s.sent[2][0] = (message){noted, sizeof noted};
            const mp_status st = mp_communicator_agree(&s.world, facts, 3, 0.1, &err);
            if (pass) fails(st, cases[k].status, &err, cases[k].sentence);
        }
    }
}

/* ---- collectives ---- */

/* 6 elements of three ranks, two each: rank 0 receives 8 bytes from each other rank. */
static mp_status collective(stage *s, mp_collective kind, bool fast, float *whole, mp_error *err)
{
    static char workspace[2 * 64];
    static mp_awaited requests[2 * RANKS];
    mp_collectives c = {.world = &s->world, .backend = backend_named("cpu", err), .fast = fast, .timeout = 0.1};
    const mp_shard_view piece = {.whole = (char *)whole, .part = (char *)whole, .n = 6};
    mp_collective_work work = {.name = "all-reduce 3", .kind = kind, .n_legs = 1, .requests = requests};
    work.legs[0] = (mp_leg){.kind = kind,
                            .group = {RANKS, 0, 0, 1},
                            .dtype = MP_DTYPE_FLOAT,
                            .n_pieces = 1,
                            .pieces = &piece,
                            .workspace = workspace};
    return mp_collectives_run(&c, &work, err);
}

TEST(a_collective_takes_what_it_awaits_and_nothing_else)
{
    static const float theirs[] = {10, 20, 30, 40};
    static const struct {
        mp_collective kind;
        bool fast;
        int64_t bytes;
        const char *sentence; /* NULL: accepted */
    } cases[] = {
        {MP_REDUCE_SCATTER, false, 8, NULL},
        {MP_REDUCE_SCATTER, false, 4, "rank 1 of 3 has sent 4 bytes in all-reduce 3 instead of 8: " OTHER_VERSION},
        {MP_REDUCE_SCATTER, false, 12, "rank 1 of 3 has sent more than the 8 bytes of all-reduce 3: " OTHER_VERSION},
        {MP_ALL_GATHER, false, 8, NULL},
        {MP_ALL_GATHER, false, 0, "rank 1 of 3 has sent 0 bytes in all-reduce 3 instead of 8"},
        {MP_ALL_GATHER, false, 16, "rank 1 of 3 has sent more than the 8 bytes of all-reduce 3"},
        {MP_ALL_REDUCE, true, 1 << 20, "a rank has sent more bytes than others in all-reduce 3: " OTHER_VERSION},
    };
    static char much[1 << 20];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float whole[6] = {1, 2, 3, 4, 5, 6};
        stage s;
        mp_error err = {0};
        begin(&s);
        s.sent[STRANGER][0] = (message){cases[k].bytes > (int64_t)sizeof theirs ? (const void *)much : theirs, cases[k].bytes};
        s.sent[2][0] = (message){theirs + 2, 8};
        const mp_status st = collective(&s, cases[k].kind, cases[k].fast, whole, &err);
        fails(st, cases[k].sentence ? MP_IO : MP_OK, &err, cases[k].sentence ? cases[k].sentence : "");
        if (cases[k].sentence) continue;
        const bool sums = cases[k].kind == MP_REDUCE_SCATTER;
        const float expected[] = {sums ? 41 : 1, sums ? 62 : 2, sums ? 3 : 10, sums ? 4 : 20, sums ? 5 : 30, sums ? 6 : 40};
        assert_memory_equal(whole, expected, sizeof whole);
    }
}

/* ---- messages between ranks ---- */

TEST(texts_are_as_long_as_is_said_and_allowed)
{
    static const int64_t right = 6, negative = -6, zero = 0, huge = INT64_MAX - 8, over = MP_TEXT_BYTES + INT64_C(1);
    const struct {
        int64_t claimed;
        message text;
        const char *sentence; /* NULL: accepted */
    } cases[] = {
        {right, {"theirs", 6}, "rank 1 of 3 has sent no text in the trace"},
        {right, {"their", 6}, NULL},
        {right, {"the", 4}, "rank 1 of 3 has sent 4 bytes in the trace instead of 6"},
        {right, {"theirs and more", 16}, "rank 1 of 3 has sent 16 bytes in the trace instead of 6"},
        {negative, {"their", 6}, "rank 1 of 3 announces -6 bytes in the trace, but only 1 to 268435456 are allowed"},
        {zero, {"", 0}, "rank 1 of 3 announces 0 bytes in the trace"},
        {huge, {"their", 6}, "rank 1 of 3 announces 9223372036854775799 bytes in the trace"},
        {over, {"their", 6}, "rank 1 of 3 announces 268435457 bytes in the trace"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
        const char *texts[RANKS] = {NULL};
        stage s;
        mp_error err = {0};
        begin(&s);
        s.sent[STRANGER][0] = (message){&cases[k].claimed, sizeof cases[k].claimed};
        s.sent[STRANGER][1] = cases[k].text;
        s.sent[2][0] = (message){&right, sizeof right};
        s.sent[2][1] = (message){"third", 6};
        const mp_status st = mp_communicator_collect(&s.world, "own", texts, pool, 0.1, "the trace", &err);
        fails(st, cases[k].sentence ? MP_IO : MP_OK, &err, cases[k].sentence ? cases[k].sentence : "");
        if (cases[k].sentence) continue;
        assert_string_equal(texts[0], "own");
        assert_string_equal(texts[1], "their");
        assert_string_equal(texts[2], "third");
    }
}

/* Rank 2 receives the text of rank 0, the first of its block. */
TEST(the_text_of_a_first_rank_is_as_long_as_is_said)
{
    static const int64_t right = 6, none = 1, huge = INT64_MAX, negative = INT64_MIN;
    const struct {
        int64_t claimed;
        message text;
        const char *sentence; /* NULL: accepted */
    } cases[] = {
        {right, {"plan!", 6}, NULL},
        {right, {"plan", 5}, "rank 0 of 3 has sent 5 bytes in the plan instead of 6: " OTHER_VERSION},
        {right, {"plan! and more", 15}, "rank 0 of 3 has sent 15 bytes in the plan instead of 6"},
        {right, {"plan!!", 6}, "rank 0 of 3 has sent no text in the plan"},
        {huge, {"plan!", 6}, "rank 0 of 3 announces 9223372036854775807 bytes in the plan"},
        {negative, {"plan!", 6}, "rank 0 of 3 announces -9223372036854775808 bytes in the plan"},
        {right, {NULL, 0}, "rank 0 of 3, on an unknown machine, has not answered in the plan for 0.1 s"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
        const char *text = NULL;
        stage s;
        mp_error err = {0};
        begin(&s);
        s.world.rank = 2;
        s.sent[0][0] = (message){&cases[k].claimed, sizeof cases[k].claimed};
        s.sent[0][1] = cases[k].text;
        s.sent[STRANGER][0] = (message){&none, sizeof none};
        const mp_status st = mp_communicator_hand_out(&s.world, RANKS, &text, pool, 0.1, "the plan", &err);
        fails(st, cases[k].sentence ? MP_IO : MP_OK, &err, cases[k].sentence ? cases[k].sentence : "");
        if (!cases[k].sentence) assert_string_equal(text, "plan!");
    }
}

/* How often this process has slept. */
static long sleeps(void)
{
    struct rusage used;
    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_nvcsw;
}

/* Rank 0 may search for seconds, and needs the processor. */
TEST(a_wait_outside_of_steps_leaves_the_processor_to_others)
{
    static const int64_t none = 1, long_text = 6;
    for (int is_text = 0; is_text < 2; is_text++) {
        MP_OWNED_BY(mp_pool_free) mp_pool *pool = mp_pool_new();
        int64_t own = 0, all[RANKS];
        const char *text;
        stage s;
        mp_error err = {0};
        begin(&s);
        s.world.rank = 2;
        if (is_text) s.sent[0][0] = (message){&long_text, sizeof long_text}; /* its text never arrives */
        s.sent[STRANGER][0] = (message){&none, sizeof none};
        const long before = sleeps();
        fails(is_text ? mp_communicator_hand_out(&s.world, RANKS, &text, pool, 0.4, "the plan", &err)
                      : mp_communicator_exchange(&s.world, &own, sizeof own, all, 0.4, "the plan", &err),
              MP_IO, &err, "rank 0 of 3, on an unknown machine, has not answered in the plan for 0.4 s");
        assert_true(sleeps() - before > 20);
    }
}

TEST(a_status_that_is_none_is_a_failure)
{
    static int64_t fine[33], strange[33] = {-77};
    mp_error err = {0};
    stage s;
    begin(&s);
    s.sent[STRANGER][0] = (message){strange, sizeof strange};
    s.sent[2][0] = (message){fine, sizeof fine};
    fails(mp_communicator_meet(&s.world, MP_OK, NULL, 0, 0.1, "saving", &err), MP_IO, &err, "rank 1 of 3 has failed in saving");
    begin(&s);
    s.sent[STRANGER][0] = s.sent[2][0] = (message){fine, sizeof fine};
    assert_int_equal(mp_communicator_meet(&s.world, MP_OK, NULL, 0, 0.1, "saving", &err), MP_OK);
}

TEST(reports_have_texts_that_end_and_figures_that_add_up)
{
    const mp_rank_report good = {.machine = "node7", .process_bytes = -1, .sent_bytes = 12};
    mp_rank_report all[10];
    mp_error err = {0};
    for (int k = 0; k < 10; k++) all[k] = good;
    assert_int_equal(mp_rank_reports_check(all, 10, &err), MP_OK);
    memset(all[0].machine, 'x', sizeof all[0].machine);
    memset(all[1].weights_hash, 'x', sizeof all[1].weights_hash);
    all[2].sent_bytes = INT64_MAX;
    all[3].planned_peak_bytes = INT64_MIN;
    all[4].wait_seconds = NAN;
    all[5].sent[MP_N_COLLECTIVES - 1].seconds = INFINITY;
    all[6].sent_by_operators.n = INT64_MAX;
    all[7].sent[0].bytes = -1;
    all[8].step_seconds = 1e300; /* too large for the sum over ranks and for its text */
    all[9].network_seconds = -1;
    for (int k = 0; k < 10; k++)
        fails(mp_rank_reports_check(&all[k], 1, &err), MP_IO, &err, "rank 0 of 1 has not sent its measurements");
}

TEST(a_network_is_measured_in_seconds)
{
    static const double wrong[] = {NAN, INFINITY, -INFINITY, -1e-9, 1e300};
    double all[RANKS] = {1e-6, 3e-6, 2e-6}, slowest = 0;
    mp_error err = {0};
    assert_int_equal(mp_network_slowest(all, RANKS, &slowest, &err), MP_OK);
    assert_true(slowest == 3e-6);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        all[STRANGER] = wrong[k];
        fails(mp_network_slowest(all, RANKS, &slowest, &err), MP_IO, &err,
              "rank 1 of 3 has not sent the seconds of a collective");
    }
    memset(all, 0, sizeof all); /* a clock that does not advance; its difference is a divisor */
    assert_int_equal(mp_network_slowest(all, RANKS, &slowest, &err), MP_OK);
    assert_true(slowest > 0);
}
