/* test_accuracy.c - accuracy on validation data: a classifier with known predictions, and independence of the batch size. */
#include <unistd.h>

#include "executor/train/accuracy.h"
#include "tests/cases/test.h"
#include "tests/cases/training_case.h"

enum { SAMPLES = 12, PIXELS = 28 * 28, CLASSES = 10 };

static const uint8_t labels[SAMPLES] = {3, 1, 3, 9, 0, 3, 4, 3, 7, 2, 3, 5};
static char image_source[128], target_source[128];

static void put(const char *path, const uint8_t *head, size_t n_head, const uint8_t *body, size_t n_body)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head, 1, n_head, file), n_head);
    assert_int_equal(fwrite(body, 1, n_body, file), n_body);
    fclose(file);
}

static int write_samples(void **state)
{
    (void)state;
    static uint8_t pixels[SAMPLES * PIXELS];
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, 28, 0, 0, 0, 28};
    static const uint8_t targets[] = {0, 0, 8, 1, 0, 0, 0, SAMPLES};
    for (size_t k = 0; k < sizeof pixels; k++) pixels[k] = (uint8_t)(k * k % 251);
    snprintf(image_source, sizeof image_source, "image=/tmp/memplan-accuracy-images-%d", (int)getpid());
    snprintf(target_source, sizeof target_source, "target=/tmp/memplan-accuracy-labels-%d", (int)getpid());
    put(strchr(image_source, '/'), images, sizeof images, pixels, sizeof pixels);
    put(strchr(target_source, '/'), targets, sizeof targets, labels, sizeof labels);
    return 0;
}

static int remove_samples(void **state)
{
    (void)state;
    unlink(strchr(image_source, '/'));
    unlink(strchr(target_source, '/'));
    return 0;
}

static int parameter(const training_case *t, const char *name)
{
    for (size_t k = 0; k < t->model->n_tensors; k++)
        if (!strcmp(t->model->tensors[k].name, name)) return (int)k;
    fail_msg("there is no '%s'", name);
    return -1;
}

/* Sets the last layer's weights to zero and its bias to `bias`, if given. Then measures the accuracy on all samples. */
static mp_accuracy measure_as(training_case (*begin)(const char *, int64_t, const mp_training_options *), int64_t batch,
                              const float *bias, uint64_t seed)
{
    mp_training_options options = {.optimizer = MP_OPTIMIZER_SGD, .dtype = MP_DTYPE_FLOAT};
    mp_hyper hyper = mp_hyper_default(MP_OPTIMIZER_SGD);
    training_case t = begin("examples/fashion_cnn.onnx", batch, &options);
    mp_plan *plan = training_keep_all(&t);
    mp_execution *e = training_execution(&t, plan, &hyper);
    const char *sources[] = {image_source, target_source};
    mp_error err = {0};
    mp_feed *feed;
    mp_array there;
    mp_accuracy found;
    assert_int_equal(mp_inputs_open_feed(t.program, sources, 2, 1, &feed, &err), MP_OK);
    if (bias) {
        static const float none[CLASSES * 64];
        int64_t wide[] = {CLASSES, 64}, narrow[] = {CLASSES};
        mp_array weights = mp_array_plain(MP_DTYPE_FLOAT, 2, wide), values = mp_array_plain(MP_DTYPE_FLOAT, 1, narrow);
        weights.data = (void *)(uintptr_t)none;
        values.data = (void *)(uintptr_t)bias;
        assert_int_equal(mp_execution_tensor(e, parameter(&t, "10.weight"), &there, &err), MP_OK);
        assert_int_equal(t.program->backend->upload(t.program->backend, &weights, &there, &err), MP_OK);
        assert_int_equal(mp_execution_tensor(e, parameter(&t, "10.bias"), &there, &err), MP_OK);
        assert_int_equal(t.program->backend->upload(t.program->backend, &values, &there, &err), MP_OK);
    }
    if (mp_accuracy_measure(e, t.program, feed, seed, &found, &err) != MP_OK) fail_msg("%s", err.message);
    mp_feed_free(feed);
    mp_execution_free(e);
    mp_plan_free(plan);
    training_end(&t);
    return found;
}

static mp_accuracy measure(int64_t batch, const float *bias, uint64_t seed)
{
    return measure_as(training_begin, batch, bias, seed);
}

TEST(a_constant_answer_is_right_as_often_as_it_is_the_label)
{
    static const float bias[CLASSES] = {0.5F, -1, 0, 2, 1, 0, 0, 0.25F, 0, -2};
    double sum = 0, loss = 0;
    int n_right = 0;
    for (int c = 0; c < CLASSES; c++) sum += exp((double)bias[c]);
    for (int k = 0; k < SAMPLES; k++) {
        loss += log(sum) - (double)bias[labels[k]];
        n_right += labels[k] == 3;
    }
    mp_accuracy found = measure(4, bias, 0);
    assert_int_equal(found.n_samples, SAMPLES);
    assert_true(fabs(found.accuracy - (double)n_right / SAMPLES) < 1e-12);
    assert_true(fabs(found.loss - loss / SAMPLES) < 1e-6);
}

/* The correct labels of all chunks are counted. */
TEST(chunks_of_rows_have_the_accuracy_of_the_whole)
{
    for (int64_t batch = 4; batch <= 6; batch += 2) {
        const mp_accuracy whole = measure(batch, NULL, 0), chunked = measure_as(training_begin_chunked, batch, NULL, 0);
        assert_true(chunked.accuracy == whole.accuracy && whole.accuracy > 0);
        assert_true(fabs(chunked.loss - whole.loss) < 1e-6);
    }
}

/* Normalization uses the running statistics and dropout is inactive. So a sample's loss depends only on the sample. */
TEST(samples_do_not_depend_on_each_other_or_on_the_seed)
{
    mp_accuracy first = measure(4, NULL, 0), drawn = measure(4, NULL, 1), together = measure(12, NULL, 0);
    assert_true(first.loss == drawn.loss && first.accuracy == drawn.accuracy);
    assert_true(fabs(first.loss - together.loss) < 1e-5);
    assert_int_equal(measure(5, NULL, 0).n_samples, 10); /* whole batches only */
}

int main(void)
{
    return test_run(write_samples, remove_samples);
}
