/* test_prefetch.c - batches prepared ahead by a thread: exactly the same values as without it, in any order of batches. A
 * device receives them in free memory during the previous pass. Failures and the end of a training are detected. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "memplan/train.h"
#include "tests/cases/backend_case.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { STEPS = 6 };
typedef enum how { BY_ITSELF, ON_HOST, ON_DEVICE } how;

/* A backend with or without a free core, and with or without an upload stream for inputs. Its memory is the host's. */
typedef struct port {
    mp_backend backend; /* must be first; has the context of `inner` */
    const mp_backend *inner;
    how how;
    pthread_t training; /* the training thread */
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    int n_inputs, n_brought, n_landed, n_passes, n_pinned;
    bool waits;      /* the end of a pass waits until the next batch has been uploaded */
    int fails_after; /* number of uploaded inputs before a failure; < 0: never */
    int n_faults;
} port;

static port harbour;

static port *port_of(const mp_backend *self)
{
    return (port *)self;
}

static int threads(const mp_backend *self)
{
    return port_of(self)->how == BY_ITSELF ? 1 << 20 : 0;
}

static void *pin(const mp_backend *self, int64_t bytes)
{
    port_of(self)->n_pinned++;
    return malloc((size_t)bytes);
}

static void unpin(const mp_backend *self, void *pinned)
{
    port_of(self)->n_pinned--;
    free(pinned);
}

static mp_status bring(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err)
{
    port *p = port_of(self);
    mp_status st = MP_OK;
    pthread_mutex_lock(&p->lock);
    p->n_faults += pthread_equal(pthread_self(), p->training) != 0;
    if (p->fails_after >= 0 && p->n_brought >= p->fails_after)
        st = MP_FAIL(err, MP_IO, "the crane has failed");
    else
        memcpy(landing, pinned, (size_t)bytes);
    p->n_brought++;
    pthread_cond_broadcast(&p->arrived);
    pthread_mutex_unlock(&p->lock);
    return st;
}

static mp_status land(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err)
{
    port *p = port_of(self);
    (void)err;
    pthread_mutex_lock(&p->lock);
    p->n_faults += !pthread_equal(pthread_self(), p->training) || p->n_landed >= p->n_brought;
    memcpy(to, landing, (size_t)bytes);
    memset((void *)landing, 0xff, (size_t)bytes);
    p->n_landed++;
    pthread_mutex_unlock(&p->lock);
    return MP_OK;
}

/* Reads the loss, a single number, at the end of a pass, and the weights after the last pass. */
static mp_status download(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err)
{
    port *p = port_of(self);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    if (there->rank > 0) return p->inner->download(p->inner, there, host, err);
    pthread_mutex_lock(&p->lock);
    p->n_passes++;
    while (p->waits && p->n_brought < (p->n_passes + 1) * p->n_inputs)
        if (pthread_cond_timedwait(&p->arrived, &p->lock, &until) == ETIMEDOUT) {
            p->n_faults++;
            p->waits = false;
        }
    pthread_mutex_unlock(&p->lock);
    return p->inner->download(p->inner, there, host, err);
}

static const mp_backend *port_backend(const mp_backend *of, how how)
{
    harbour = (port){.backend = *of, .inner = of, .how = how, .training = pthread_self(), .fails_after = -1};
    pthread_mutex_init(&harbour.lock, NULL);
    pthread_cond_init(&harbour.arrived, NULL);
    harbour.backend.threads = threads;
    harbour.backend.download = download;
    if (how == ON_DEVICE) {
        harbour.backend.pin = pin;
        harbour.backend.unpin = unpin;
        harbour.backend.bring = bring;
        harbour.backend.land = land;
    }
    return &harbour.backend;
}

static training_case begin(how how, const char *network, const mp_training_options *options)
{
    training_case t = training_begin_on(port_backend(backend_of_tests(), how), network, 0, options);
    for (size_t k = 0; k < t.model->n_tensors; k++)
        harbour.n_inputs += t.model->tensors[k].role == MP_ROLE_DATA && t.model->tensors[k].producer < 0 &&
                            t.program->bindings->storage[k] >= 0;
    assert_true(harbour.n_inputs > 0);
    return t;
}

static const char *const networks[] = {"tests/gradients/mlp.onnx", "tests/gradients/cnn.onnx", "tests/gradients/gpt.onnx"};

TEST(trainings_are_the_same_bit_for_bit)
{
    for (size_t k = 0; k < 2 * sizeof networks / sizeof *networks; k++) {
        const mp_training_options options = {
            .optimizer = MP_OPTIMIZER_ADAMW, .dtype = k & 1 ? MP_DTYPE_BFLOAT16 : MP_DTYPE_FLOAT, .accumulate = k & 1 ? 3 : 1};
        mp_report reports[3];
        for (int way = BY_ITSELF; way <= ON_DEVICE; way++) {
            mp_error err = {0};
            training_case t = begin((how)way, networks[k / 2], &options);
            mp_plan *plan = training_keep_all(&t);
            const mp_train_request request = {.program = t.program,
                                              .plan = plan,
                                              .execution = {.hyper = mp_hyper_default(MP_OPTIMIZER_ADAMW)},
                                              .feed = t.feed,
                                              .test = t.feed,
                                              .parameters = t.source,
                                              .n_steps = STEPS};
            if (mp_train(&request, &reports[way], &err) != MP_OK) fail_msg("%s", err.message);
            assert_int_equal(reports[way].n_allocations, 0);
            assert_int_equal(reports[way].next_batch_bytes > 0, way == ON_DEVICE);
            assert_int_equal(harbour.n_faults, 0);
            assert_int_equal(harbour.n_pinned, 0);
            if (way == ON_DEVICE) assert_true(harbour.n_landed >= STEPS * harbour.n_inputs);
            mp_plan_free(plan);
            training_end(&t);
        }
        for (int way = ON_HOST; way <= ON_DEVICE; way++) {
            assert_memory_equal(reports[0].losses, reports[way].losses, STEPS * sizeof *reports[0].losses);
            assert_string_equal(reports[0].weights_hash, reports[way].weights_hash);
            assert_memory_equal(&reports[0].test.loss, &reports[way].test.loss, sizeof reports[0].test.loss);
            mp_report_free(&reports[way]);
        }
        mp_report_free(&reports[0]);
    }
}

/* Runs batches in arbitrary order. The input memory must equal the feed's batch of that number. */
TEST(batches_come_in_any_order)
{
    static const int64_t order[] = {5, 6, 7, 2, 3, 3, 9, 0, 1, 2, 3, 4, 5, 4};
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_BFLOAT16};
    for (int way = ON_HOST; way <= ON_DEVICE; way++) {
        training_case t = begin((how)way, networks[1], &options);
        const mp_execution_options how = {.hyper = mp_hyper_default(MP_OPTIMIZER_SGD)};
        mp_plan *plan = training_keep_all(&t);
        mp_execution *e;
        mp_input_filler ahead, itself;
        mp_error err = {0};
        assert_int_equal(mp_execution_new(t.program, plan, &how, &e, &err), MP_OK);
        assert_int_equal(mp_input_filler_new(t.program, t.feed, &ahead, &err), MP_OK);
        harbour.how = BY_ITSELF;
        assert_int_equal(mp_input_filler_new(t.program, t.feed, &itself, &err), MP_OK);
        assert_non_null(ahead.prefetch);
        assert_null(itself.prefetch);
        for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
            char *kept[8];
            assert_int_equal(mp_inputs_fill(&ahead, order[k], e, &err), MP_OK);
            for (size_t i = 0; i < ahead.n; i++) {
                const size_t bytes = (size_t)mp_array_bytes(&ahead.there[i]);
                kept[i] = malloc(bytes);
                memcpy(kept[i], ahead.there[i].data, bytes);
                memset(ahead.there[i].data, 0, bytes);
            }
            assert_int_equal(mp_inputs_fill(&itself, order[k], e, &err), MP_OK);
            for (size_t i = 0; i < ahead.n; i++) {
                assert_memory_equal(kept[i], itself.there[i].data, (size_t)mp_array_bytes(&itself.there[i]));
                free(kept[i]);
            }
        }
        mp_input_filler_free(&itself);
        mp_input_filler_free(&ahead);
        mp_execution_free(e);
        assert_int_equal(harbour.n_faults, 0);
        mp_plan_free(plan);
        training_end(&t);
    }
}

static bool stop_after_four(const mp_train_progress *now, void *data)
{
    (void)data;
    return now->step < 4;
}

/* No pass ends before the next batch is on the device, so its upload ran during the pass. Then the training is interrupted. */
TEST(the_next_batch_comes_while_a_pass_runs)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    mp_error err = {0};
    mp_report report;
    training_case t = begin(ON_DEVICE, networks[0], &options);
    mp_plan *plan = training_keep_all(&t);
    mp_train_request request = training_request(&t, plan, 100);
    request.progress = stop_after_four;
    harbour.waits = true;
    assert_int_equal(mp_train(&request, &report, &err), MP_OK);
    assert_true(report.stopped);
    assert_int_equal(report.n_losses, 4);
    assert_int_equal(harbour.n_faults, 0);
    assert_int_equal(harbour.n_landed, 4 * harbour.n_inputs);
    assert_int_equal(harbour.n_pinned, 0);
    mp_report_free(&report);
    mp_plan_free(plan);
    training_end(&t);
}

TEST(what_fails_in_the_thread_ends_the_training)
{
    const mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    mp_error err = {0};
    mp_report report;
    training_case t = begin(ON_DEVICE, networks[0], &options);
    mp_plan *plan = training_keep_all(&t);
    const mp_train_request request = training_request(&t, plan, 100);
    harbour.fails_after = 3 * harbour.n_inputs;
    assert_int_equal(mp_train(&request, &report, &err), MP_IO);
    assert_string_equal(err.message, "the crane has failed");
    assert_int_equal(harbour.n_landed, 3 * harbour.n_inputs);
    assert_int_equal(harbour.n_pinned, 0);
    mp_plan_free(plan);
    training_end(&t);
}
