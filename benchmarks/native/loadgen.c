/* loadgen: a closed-loop client of one chat completions endpoint; prints one line of JSON.
 *
 * Each connection has one request at a time. Every answer is checked: a stream for all its pieces, in order, and
 * [DONE]; a plain answer for its status and its text. Measured are, after a warm-up, the time to the first piece, the
 * way of every piece from `upstream` to here (both read the same clock), and what the processes of `--pids` use: CPU
 * time, user and system, by the scheduler's counters of each thread, and resident memory. One thread, epoll. */
#include "common.h"
#include <ctype.h>
#include <dirent.h>

enum { MAX_EVENTS = 512, MAX_PIDS = 256, GRACE_S = 20 };
enum { STAMP = 16 }; /* hex digits of a time */

typedef enum { SIZE, DATA, DATA_END, TRAILER } ChunkState;

typedef struct {
    int fd;
    bool connecting, busy;
    uint64_t starts_at, sent_at, first_at;
    int served; /* requests before this one on the same socket */
    size_t written;
    Buffer in, body; /* bytes as they arrive; bytes of the body that are not looked at yet */
    /* the answer */
    bool in_head, chunked, is_stream, keep_alive, done, has_piece;
    int status, last_piece;
    long left; /* bytes of a body with a length; -1: until the end of the connection */
    ChunkState chunk_state;
    size_t chunk_left;
} Connection;

typedef struct {
    float *values;
    size_t count, capacity;
} Samples;

static struct {
    int port, connections, ramp_ms, expected_pieces, header_count;
    long requests, warmup;
    double seconds;
    bool stream;
    const char *path, *model, *headers[16];
    int pids[MAX_PIDS], pid_count;
} options = {.port = 8000,
             .connections = 1,
             .requests = 1000,
             .seconds = 60,
             .path = "/v1/chat/completions",
             .model = "m-100-0"};

static struct {
    long ok, bad_status, broken, reconnects, pieces, untouched;
    char first_bad[400];
    Samples first, piece;
} result;

static int epoll;
static Buffer request;
static long started, finished, in_flight;
static bool measuring;

/* ------------------------------------------------------------------------------------------------- samples */

static void add_sample(Samples *samples, double value) {
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity ? samples->capacity * 2 : 4096;
        samples->values = checked(realloc(samples->values, samples->capacity * sizeof *samples->values));
    }
    samples->values[samples->count++] = (float)value;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_samples(const char *name, Samples *samples) {
    static const double quantiles[] = {0.5, 0.9, 0.99, 1};
    static const char *const names[] = {"p50", "p90", "p99", "max"};
    if (!samples->count)
        return;
    qsort(samples->values, samples->count, sizeof *samples->values, by_value);
    printf(",\"%s\":{\"count\":%zu", name, samples->count);
    for (int i = 0; i < 4; i++)
        printf(",\"%s\":%.1f", names[i], samples->values[(size_t)(quantiles[i] * (samples->count - 1))]);
    printf("}");
}

/* ------------------------------------------------------------------------------------------------- /proc */

/* The number behind a label in a file of /proc, or its first number without one; 0 where there is none. */
static unsigned long long read_number(const char *path, const char *label) {
    FILE *file = fopen(path, "r");
    char line[256];
    unsigned long long number = 0;
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, label, strlen(label)) == 0) {
            number = strtoull(line + strlen(label), NULL, 10);
            break;
        }
    fclose(file);
    return number;
}

/* CPU seconds of one process by clock ticks, for kernels that do not count ns; all threads, ended ones too. */
static double ticks_s(int pid) {
    char path[64], text[2048];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *name_end = strrchr(text, ')');
    if (name_end)
        sscanf(name_end + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

static double scheduled_s(int pid) {
    char path[400];
    double seconds = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    if (!threads)
        return 0;
    for (struct dirent *entry; (entry = readdir(threads));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pid, entry->d_name);
        seconds += read_number(path, "") / 1e9;
    }
    closedir(threads);
    return seconds;
}

static double cpu_s(void) {
    double scheduled = 0, ticks = 0;
    for (int i = 0; i < options.pid_count; i++) {
        scheduled += scheduled_s(options.pids[i]);
        ticks += ticks_s(options.pids[i]);
    }
    return scheduled > 0 ? scheduled : ticks;
}

static long rss_kb(void) {
    char path[64];
    long sum = 0;
    for (int i = 0; i < options.pid_count; i++) {
        snprintf(path, sizeof path, "/proc/%d/status", options.pids[i]);
        sum += (long)read_number(path, "VmRSS:");
    }
    return sum;
}

/* ------------------------------------------------------------------------------------------------- requests */

static void build_request(void) {
    char *body, *head;
    int length =
        asprintf(&body,
                 "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful "
                 "assistant.\"},{\"role\":\"user\",\"content\":\"Say hello.\"}],\"temperature\":0.7,"
                 "\"max_tokens\":512%s}",
                 options.model, options.stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
    int head_size = asprintf(&head,
                             "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                             "Accept: */*\r\nContent-Length: %d\r\n",
                             options.path, options.port, length);
    buffer_add(&request, head, head_size);
    for (int i = 0; i < options.header_count; i++) {
        buffer_add(&request, options.headers[i], strlen(options.headers[i]));
        buffer_add(&request, "\r\n", 2);
    }
    buffer_add(&request, "\r\n", 2);
    buffer_add(&request, body, length);
    free(head);
    free(body);
}

static void disconnect(Connection *c) {
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

static void watch(Connection *c, int operation, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    epoll_ctl(epoll, operation, c->fd, &event);
}

static void dial(Connection *c) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(options.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    prepare_socket(c->fd);
    c->connecting = true;
    c->served = 0;
    connect(c->fd, (void *)&address, sizeof address); /* its outcome comes with EPOLLOUT */
    watch(c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void send_request(Connection *c) {
    while (c->written < request.length) {
        ssize_t sent = send(c->fd, request.data + c->written, request.length - c->written, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN)
                watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return; /* any other error is read next, as the end of the connection */
        }
        c->written += sent;
    }
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

static void start(Connection *c) {
    if (started >= options.requests + options.warmup) {
        c->busy = false;
        return;
    }
    started++;
    in_flight++;
    c->busy = c->in_head = true;
    c->chunked = c->is_stream = c->done = c->has_piece = false;
    c->status = c->last_piece = 0;
    c->left = -1;
    c->chunk_state = SIZE;
    c->chunk_left = 0;
    c->in.length = c->body.length = c->written = 0;
    c->sent_at = now_ns();
    if (c->fd < 0) {
        dial(c);
    } else {
        c->served++;
        send_request(c);
    }
}

static void note_bad(const Connection *c) {
    if (result.first_bad[0] || !c->body.length)
        return;
    size_t length = c->body.length < sizeof result.first_bad - 1 ? c->body.length : sizeof result.first_bad - 1;
    memcpy(result.first_bad, c->body.data, length);
    result.first_bad[length] = 0;
}

static void finish(Connection *c, bool whole) {
    if (options.stream)
        whole = whole && c->done && c->last_piece == options.expected_pieces;
    if (c->status != 200)
        note_bad(c);
    if (measuring) {
        if (c->status != 200) {
            result.bad_status++;
        } else if (!whole) {
            result.broken++;
        } else {
            result.ok++;
            add_sample(&result.first, (c->first_at - c->sent_at) / 1e3);
        }
    }
    in_flight--;
    finished++;
    if (!c->keep_alive)
        disconnect(c);
    start(c);
}

/* ------------------------------------------------------------------------------------------------- answers */

/* Where the time of a piece begins in a line: 16 hex digits between "t=" and a blank. */
static const char *find_stamp(const char *line, size_t length) {
    const char *end = line + length, *at = line;
    while ((at = memmem(at, end - at, "t=", 2))) {
        at += 2;
        if (end - at > STAMP && at[STAMP] == ' ' && isxdigit((unsigned char)at[0]) &&
            isxdigit((unsigned char)at[STAMP - 1]))
            return at;
    }
    return NULL;
}

static void read_data_line(Connection *c, const char *line, size_t length, uint64_t now) {
    if (memmem(line, length < 20 ? length : 20, "[DONE]", 6)) {
        c->done = true;
        return;
    }
    const char *stamp = find_stamp(line, length);
    if (!stamp)
        return;
    const char *number = memmem(stamp, line + length - stamp, "s=", 2);
    c->last_piece = number && atoi(number + 2) == c->last_piece + 1 ? c->last_piece + 1 : -1000000;
    if (!c->has_piece) {
        c->has_piece = true;
        c->first_at = now;
    }
    if (measuring) {
        result.pieces++;
        add_sample(&result.piece, ((double)now - (double)strtoull(stamp, NULL, 16)) / 1e3);
        if (memmem(line, length, "\"token_ids\"", 11) || memmem(line, length, "\"reasoning\":\"", 13))
            result.untouched++;
    }
}

static void read_lines(Connection *c, uint64_t now) {
    size_t at = 0;
    while (at < c->body.length) {
        char *line = c->body.data + at, *end = memchr(line, '\n', c->body.length - at);
        if (!end)
            break;
        if (end - line > 5 && memcmp(line, "data:", 5) == 0)
            read_data_line(c, line, end - line, now);
        at = end + 1 - c->body.data;
    }
    buffer_drop(&c->body, at);
}

/* Moves what is chunked from `in` to `body`; true after the last chunk. */
static bool read_chunks(Connection *c) {
    size_t at = 0;
    bool over = false;
    while (at < c->in.length && !over) {
        char *data = c->in.data + at;
        size_t length = c->in.length - at;
        if (c->chunk_state == DATA) {
            if (length > c->chunk_left)
                length = c->chunk_left;
            buffer_add(&c->body, data, length);
            at += length;
            c->chunk_left -= length;
            if (!c->chunk_left)
                c->chunk_state = DATA_END;
            continue;
        }
        char *end = memchr(data, '\n', length);
        if (!end)
            break;
        length = end + 1 - data;
        at += length;
        if (c->chunk_state == SIZE) {
            c->chunk_left = strtoul(data, NULL, 16);
            c->chunk_state = c->chunk_left ? DATA : TRAILER;
        } else if (c->chunk_state == DATA_END) {
            c->chunk_state = SIZE;
        } else {
            over = length <= 2;
        }
    }
    buffer_drop(&c->in, at);
    return over;
}

static void read_head(Connection *c, size_t head) {
    const char *data = c->in.data, *connection = head_value(data, head, "connection");
    const char *length = head_value(data, head, "content-length");
    c->status = atoi(data + 9);
    c->chunked = starts_with(head_value(data, head, "transfer-encoding"), "chunked");
    c->left = !c->chunked && length ? atol(length) : -1;
    c->keep_alive = memcmp(data, "HTTP/1.1", 8) == 0 && !starts_with(connection, "close") && (c->chunked || length);
    c->is_stream = starts_with(head_value(data, head, "content-type"), "text/event-stream");
    c->in_head = c->status < 200;
    buffer_drop(&c->in, head);
}

/* Reads what arrived: 1 the answer is whole, 0 it goes on, -1 it is wrong. */
static int read_answer(Connection *c, uint64_t now) {
    while (c->in_head) {
        size_t head = head_length(&c->in);
        if (!head)
            return 0;
        read_head(c, head);
    }
    bool over = false;
    if (c->chunked) {
        over = read_chunks(c);
    } else {
        size_t length = c->in.length;
        if (c->left >= 0 && length > (size_t)c->left)
            length = c->left;
        buffer_add(&c->body, c->in.data, length);
        buffer_drop(&c->in, length);
        if (c->left >= 0)
            over = (c->left -= length) == 0;
    }
    if (c->is_stream) {
        read_lines(c, now);
    } else if (over && !options.stream && c->status == 200) {
        c->first_at = now;
        if (!find_stamp(c->body.data, c->body.length))
            return -1;
    }
    return over;
}

/* ------------------------------------------------------------------------------------------------- the loop */

static void handle_end(Connection *c) {
    bool unanswered = c->in_head && c->in.length == 0;
    disconnect(c);
    if (!c->busy)
        return;
    if (unanswered && c->served > 0) { /* an idle connection was closed as the request left: ask again */
        result.reconnects++;
        c->written = 0;
        dial(c);
        return;
    }
    c->keep_alive = false;
    finish(c, !c->in_head && !c->chunked && c->left < 0);
}

static void handle(Connection *c, uint32_t events) {
    static char read_buffer[262144];
    if (c->fd < 0)
        return;
    if (c->connecting && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            c->keep_alive = false;
            finish(c, false);
            return;
        }
        c->connecting = false;
        send_request(c);
        return;
    }
    if (events & EPOLLOUT)
        send_request(c);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    ssize_t got = recv(c->fd, read_buffer, sizeof read_buffer, 0);
    uint64_t now = now_ns();
    if (got > 0 && c->busy) {
        buffer_add(&c->in, read_buffer, got);
        int state = read_answer(c, now);
        if (state) {
            c->keep_alive = c->keep_alive && state > 0;
            finish(c, state > 0);
        }
    } else if (got == 0 || (got < 0 && errno != EAGAIN)) {
        handle_end(c);
    }
}

static void print_result(double elapsed, double cpu, long rss_start, long rss_max) {
    printf("{\"elapsed_s\":%.3f,\"ok\":%ld,\"bad_status\":%ld,\"broken\":%ld,\"unfinished\":%ld,\"reconnects\":%ld,"
           "\"pieces\":%ld,\"untouched\":%ld,\"rss_kb_start\":%ld,\"rss_kb_max\":%ld",
           elapsed, result.ok, result.bad_status, result.broken, in_flight, result.reconnects, result.pieces,
           result.untouched, rss_start, rss_max);
    if (options.pid_count && result.ok)
        printf(",\"cpu_s\":%.4f,\"cpu_ms_per_answer\":%.5f", cpu, cpu * 1e3 / result.ok);
    if (options.pid_count && result.pieces)
        printf(",\"cpu_us_per_piece\":%.4f", cpu * 1e6 / result.pieces);
    print_samples("first_us", &result.first);
    print_samples("piece_us", &result.piece);
    printf(",\"first_bad\":\"");
    for (const unsigned char *at = (void *)result.first_bad; *at; at++) {
        if (*at == '"' || *at == '\\')
            putchar('\\');
        if (*at >= ' ')
            putchar(*at);
    }
    printf("\"}\n");
}

static void run(void) {
    static struct epoll_event events[MAX_EVENTS];
    Connection *connections = checked(calloc(options.connections, sizeof *connections));
    uint64_t begun = now_ns(), measured_from = begun, rss_at = 0;
    double cpu_start = 0;
    long rss_start = 0, rss_max = 0, rss;
    int opened = 0;
    bool stopping = false;
    for (int i = 0; i < options.connections; i++) {
        connections[i].fd = -1;
        connections[i].starts_at = begun + options.ramp_ms * 1000000ull * i / options.connections;
    }
    for (;;) {
        uint64_t now = now_ns();
        if (!measuring && finished >= options.warmup) {
            measuring = true;
            cpu_start = cpu_s();
            rss_start = rss_kb();
            measured_from = now = now_ns();
        }
        if (measuring && now - rss_at > 500000000ull) {
            rss = rss_kb();
            rss_max = rss > rss_max ? rss : rss_max;
            rss_at = now;
        }
        while (opened < options.connections && connections[opened].starts_at <= now)
            start(&connections[opened++]);
        double elapsed = (now - measured_from) / 1e9;
        if (measuring && !stopping && elapsed > options.seconds) {
            stopping = true;
            options.requests = started - options.warmup;
            opened = options.connections;
        }
        if (stopping && elapsed > options.seconds + GRACE_S)
            break;
        if (in_flight == 0 && (opened >= options.connections || started >= options.requests + options.warmup))
            break;
        int ready = epoll_wait(epoll, events, MAX_EVENTS, opened < options.connections ? 1 : 200);
        for (int i = 0; i < ready; i++)
            handle(events[i].data.ptr, events[i].events);
    }
    double elapsed = (now_ns() - measured_from) / 1e9, cpu = cpu_s() - cpu_start;
    rss = rss_kb();
    print_result(elapsed, cpu, rss_start, rss > rss_max ? rss : rss_max);
}

/* ------------------------------------------------------------------------------------------------- options */

static void usage(void) {
    puts("loadgen: load on a chat completions endpoint on 127.0.0.1; prints one line of JSON\n"
         "  --port N          its port (default 8000)\n"
         "  --path P          its path (default /v1/chat/completions)\n"
         "  --model NAME      what `upstream` shall answer: m-<pieces>-<pace us>-<vllm|llama|plain>\n"
         "  --stream          ask for a stream\n"
         "  --connections N   open connections, each with one request at a time (default 1)\n"
         "  --requests N      requests to measure (default 1000)\n"
         "  --warmup N        requests before those (default 0)\n"
         "  --seconds S       start no request later than this (default 60)\n"
         "  --ramp-ms N       spread the first starts over this time (default 0)\n"
         "  --header 'K: V'   a header more (repeatable)\n"
         "  --pids A,B,..     processes whose CPU time and memory to report");
    exit(0);
}

static void read_pids(char *list) {
    for (char *pid; (pid = strsep(&list, ",")) && options.pid_count < MAX_PIDS;)
        options.pids[options.pid_count++] = atoi(pid);
}

static void read_options(int argc, char **argv) {
    static const struct option known[] = {
        {"port", 1, 0, 'p'},
        {"path", 1, 0, 'P'},
        {"model", 1, 0, 'm'},
        {"stream", 0, 0, 's'},
        {"connections", 1, 0, 'c'},
        {"requests", 1, 0, 'n'},
        {"warmup", 1, 0, 'w'},
        {"seconds", 1, 0, 'd'},
        {"ramp-ms", 1, 0, 'r'},
        {"header", 1, 0, 'H'},
        {"pids", 1, 0, 'i'},
        {"help", 0, 0, 'h'},
        {0}
    };
    for (int option; (option = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        switch (option) {
        case 'p': options.port = atoi(optarg); break;
        case 'P': options.path = optarg; break;
        case 'm': options.model = optarg; break;
        case 's': options.stream = true; break;
        case 'c': options.connections = atoi(optarg); break;
        case 'n': options.requests = atol(optarg); break;
        case 'w': options.warmup = atol(optarg); break;
        case 'd': options.seconds = atof(optarg); break;
        case 'r': options.ramp_ms = atoi(optarg); break;
        case 'H':
            if (options.header_count < 16)
                options.headers[options.header_count++] = optarg;
            break;
        case 'i': read_pids(optarg); break;
        default: usage();
        }
    }
    if (starts_with(options.model, "m-"))
        options.expected_pieces = atoi(options.model + 2);
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    prepare_process();
    build_request();
    epoll = epoll_create1(0);
    run();
    return 0;
}
