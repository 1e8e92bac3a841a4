/* What the two programs share: the clock, growable buffers, a look into an HTTP head, socket options. */
#ifndef SVIR_BENCHMARK_COMMON_H
#define SVIR_BENCHMARK_COMMON_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* CLOCK_MONOTONIC is one clock for all processes, which makes one-way latencies measurable. */
static inline uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline void *checked(void *memory) {
    if (!memory) {
        perror("memory");
        exit(2);
    }
    return memory;
}

typedef struct {
    char *data;
    size_t length, capacity;
} Buffer;

static inline void buffer_add(Buffer *buffer, const void *data, size_t length) {
    if (buffer->length + length > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity : 4096;
        while (capacity < buffer->length + length)
            capacity *= 2;
        buffer->data = checked(realloc(buffer->data, capacity));
        buffer->capacity = capacity;
    }
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

/* Drops the first bytes. */
static inline void buffer_drop(Buffer *buffer, size_t length) {
    if (length >= buffer->length) {
        buffer->length = 0;
        return;
    }
    memmove(buffer->data, buffer->data + length, buffer->length - length);
    buffer->length -= length;
}

/* Bytes of the HTTP head at the beginning of the buffer, its empty line included; 0 while it is not complete. */
static inline size_t head_length(const Buffer *buffer) {
    char *end = buffer->length >= 4 ? memmem(buffer->data, buffer->length, "\r\n\r\n", 4) : NULL;
    return end ? (size_t)(end - buffer->data) + 4 : 0;
}

/* Where the value of a header begins in a head; NULL where the head has none of that name. */
static inline const char *head_value(const char *head, size_t length, const char *name) {
    size_t width = strlen(name);
    for (size_t i = 0; i + width + 1 < length; i++) {
        if (head[i] != '\n' || head[i + 1 + width] != ':' || strncasecmp(head + i + 1, name, width) != 0)
            continue;
        const char *value = head + i + width + 2;
        while (*value == ' ')
            value++;
        return value;
    }
    return NULL;
}

static inline bool starts_with(const char *text, const char *prefix) {
    return text && strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* Without TCP_NODELAY each small write would wait for the acknowledgement of the one before. */
static inline void prepare_socket(int fd) {
    int one = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* A client that leaves must not end the program, and a thousand streams need two thousand descriptors. */
static inline void prepare_process(void) {
    struct rlimit limit;
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}
#endif
