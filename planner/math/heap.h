/* heap.h - a binary heap is a priority queue of integers: the smallest key first, ties by the smaller value. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mp_heap_item {
    int64_t key;
    int value;
} mp_heap_item;

/* The array is the caller's, and has space for all items that are in the heap at once. */
typedef struct mp_heap {
    mp_heap_item *items;
    size_t n;
} mp_heap;

void mp_heap_push(mp_heap *heap, int64_t key, int value); /* O(log n) */
int mp_heap_pop(mp_heap *heap);                           /* the value of the first item; the heap is not empty. O(log n) */
