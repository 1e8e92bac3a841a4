/* upstream: a scripted OpenAI-compatible server, much faster than any proxy in front of it.
 *
 * POST .../chat/completions with "stream":true answers with server-sent events, without it with JSON; GET .../models
 * lists the models. The model's name says what to answer, since it is what survives every proxy:
 *
 *     m-<pieces>-<pace in us>-<style>      style: vllm ("reasoning" and vLLM's keys), llama (llama.cpp's), plain
 *
 * Pace 0 writes as fast as the socket takes it, each event with a write of its own. Every piece of text carries
 * "t=<16 hex digits>", the time of its writing in ns, and "s=<number from 1>", by which `loadgen` knows latency, order
 * and loss. One thread, epoll, keep-alive; request bodies with a length or chunked; 127.0.0.1 only. */
#include "common.h"

enum { PIECES_A_TURN = 32, MAX_EVENTS = 512 };

typedef enum { VLLM, LLAMA, PLAIN, STYLES } Style;
static const char *const style_names[STYLES] = {"vllm", "llama", "plain"};

typedef struct {
    int fd;
    bool streaming, wants_write, close_after, told_to_continue;
    Buffer in, out;
    size_t written; /* bytes of `out` that are sent */
    int heap_at;    /* place among the streams that wait for their next event, -1: none */
    int next, pieces;
    Style style;
    uint64_t pace_ns, due, created;
} Connection;

static int epoll;
static uint64_t requests;
static char *models = "";

/* ------------------------------------------------------- streams by the time of their next event: a binary heap */

static Connection **heap;
static int heap_size, heap_capacity;

static void heap_swap(int a, int b) {
    Connection *c = heap[a];
    heap[a] = heap[b];
    heap[b] = c;
    heap[a]->heap_at = a;
    heap[b]->heap_at = b;
}

static void heap_up(int at) {
    for (; at && heap[(at - 1) / 2]->due > heap[at]->due; at = (at - 1) / 2)
        heap_swap(at, (at - 1) / 2);
}

static void heap_down(int at) {
    for (;;) {
        int left = 2 * at + 1, right = left + 1, first = at;
        if (left < heap_size && heap[left]->due < heap[first]->due)
            first = left;
        if (right < heap_size && heap[right]->due < heap[first]->due)
            first = right;
        if (first == at)
            return;
        heap_swap(at, first);
        at = first;
    }
}

static void heap_push(Connection *c) {
    if (c->heap_at >= 0)
        return;
    if (heap_size == heap_capacity) {
        heap_capacity = heap_capacity ? heap_capacity * 2 : 256;
        heap = checked(realloc(heap, sizeof *heap * heap_capacity));
    }
    heap[heap_size] = c;
    c->heap_at = heap_size;
    heap_up(heap_size++);
}

static void heap_remove(Connection *c) {
    int at = c->heap_at;
    if (at < 0)
        return;
    heap_swap(at, --heap_size);
    c->heap_at = -1;
    if (at < heap_size) {
        heap_up(at);
        heap_down(at);
    }
}

/* ------------------------------------------------------------------------------------------------- writing */

static void close_connection(Connection *c) {
    heap_remove(c);
    close(c->fd); /* which takes it out of the epoll set */
    free(c->in.data);
    free(c->out.data);
    free(c);
}

static void want_write(Connection *c, bool wanted) {
    if (c->wants_write == wanted)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
    c->wants_write = wanted;
}

/* 1: all is written; 0: the socket is full; -1: the connection is dead. */
static int flush(Connection *c) {
    while (c->written < c->out.length) {
        ssize_t sent = send(c->fd, c->out.data + c->written, c->out.length - c->written, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN)
                return -1;
            want_write(c, true);
            return 0;
        }
        c->written += sent;
    }
    c->out.length = c->written = 0;
    want_write(c, false);
    return 1;
}

static void add_chunk(Connection *c, const char *data, size_t length) {
    char size[32];
    buffer_add(&c->out, size, snprintf(size, sizeof size, "%zx\r\n", length));
    buffer_add(&c->out, data, length);
    buffer_add(&c->out, "\r\n", 2);
}

/* ------------------------------------------------------------------------------------------------- the answers */

#define ID "chatcmpl-8f14e45fceea167a5a36dedd4bea2543"
#define MODEL "mock-model-27b-instruct"

/* The delta of event number `next`: 0 is the role, pieces follow, the last has the finish reason. */
static void format_delta(const Connection *c, char *delta, size_t size) {
    static const char *const reasoning[STYLES] = {"reasoning", "reasoning_content", "content"};
    if (c->next == 0)
        snprintf(delta, size, "{\"role\":\"assistant\",\"content\":%s}", c->style == LLAMA ? "null" : "\"\"");
    else if (c->next <= c->pieces)
        snprintf(delta, size, "{\"%s\":\" t=%016llx s=%d w\"}", c->next % 4 == 1 ? reasoning[c->style] : "content",
                 (unsigned long long)now_ns(), c->next);
    else
        snprintf(delta, size, "{}");
}

static void add_event(Connection *c) {
    char delta[160], event[1024];
    unsigned long long created = c->created;
    bool is_first = c->next == 0, is_last = c->next == c->pieces + 1;
    const char *reason = is_last ? "\"stop\"" : "null";
    int length;
    format_delta(c, delta, sizeof delta);
    if (c->style == LLAMA) {
        const char *timings = is_last ? ",\"timings\":{\"cache_n\":0,\"prompt_n\":12,\"predicted_n\":100}" : "";
        length = snprintf(event, sizeof event,
                          "data: {\"choices\":[{\"finish_reason\":%s,\"index\":0,\"delta\":%s}],\"created\":%llu,"
                          "\"id\":\"" ID "\",\"model\":\"" MODEL "\",\"system_fingerprint\":\"b11429-0123abcd\","
                          "\"object\":\"chat.completion.chunk\"%s}\n\n",
                          reason, delta, created, timings);
    } else {
        bool vllm = c->style == VLLM;
        const char *stop = vllm && is_last ? ",\"stop_reason\":null" : "";
        const char *tokens = vllm ? ",\"token_ids\":null" : "";
        const char *prompt = vllm && is_first ? ",\"prompt_token_ids\":null" : "";
        length = snprintf(event, sizeof event,
                          "data: {\"id\":\"" ID "\",\"object\":\"chat.completion.chunk\",\"created\":%llu,"
                          "\"model\":\"" MODEL "\",\"choices\":[{\"index\":0,\"delta\":%s,\"logprobs\":null,"
                          "\"finish_reason\":%s%s%s}]%s}\n\n",
                          created, delta, reason, stop, tokens, prompt);
    }
    add_chunk(c, event, length);
    if (is_last) {
        length = snprintf(event, sizeof event,
                          "data: {\"id\":\"" ID "\",\"object\":\"chat.completion.chunk\",\"created\":%llu,"
                          "\"model\":\"" MODEL "\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,"
                          "\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n",
                          created, 12 + c->pieces, c->pieces);
        add_chunk(c, event, length);
        add_chunk(c, "data: [DONE]\n\n", 14);
        buffer_add(&c->out, "0\r\n\r\n", 5);
    }
    c->next++;
}

static void add_json(Connection *c, const char *body, size_t length) {
    char head[256];
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 200 OK\r\nserver: upstream\r\ncontent-type: application/json\r\n"
                        "content-length: %zu\r\n%s\r\n",
                        length, c->close_after ? "connection: close\r\n" : "");
    buffer_add(&c->out, head, size);
    buffer_add(&c->out, body, length);
}

static void add_completion(Connection *c) {
    char body[1024];
    int length = snprintf(
        body, sizeof body,
        "{\"id\":\"" ID "\",\"object\":\"chat.completion\",\"created\":%llu,\"model\":\"" MODEL "\",\"choices\":["
        "{\"index\":0,\"message\":{\"role\":\"assistant\",\"reasoning\":\"The user greets.\",\"content\":"
        "\"Hello! t=%016llx s=1 How can I help you today?\",\"refusal\":null,\"annotations\":null,\"audio\":null,"
        "\"function_call\":null,\"tool_calls\":[]},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null,"
        "\"token_ids\":null}],\"service_tier\":null,\"system_fingerprint\":null,\"usage\":{\"prompt_tokens\":12,"
        "\"total_tokens\":21,\"completion_tokens\":9,\"prompt_tokens_details\":null},\"prompt_logprobs\":null,"
        "\"prompt_token_ids\":null,\"kv_transfer_params\":null}",
        (unsigned long long)c->created, (unsigned long long)now_ns());
    add_json(c, body, length);
}

static void add_models(Connection *c) {
    static const char opening[] = "{\"object\":\"list\",\"data\":[";
    Buffer list = {0};
    char *names = checked(strdup(models)), *rest = names, entry[300];
    buffer_add(&list, opening, sizeof opening - 1);
    for (char *name; (name = strsep(&rest, ","));)
        buffer_add(&list, entry,
                   snprintf(entry, sizeof entry,
                            "%s{\"id\":\"%.100s\",\"object\":\"model\",\"created\":1700000000,\"owned_by\":\"svir\"}",
                            list.length > sizeof opening ? "," : "", name));
    buffer_add(&list, "]}", 2);
    add_json(c, list.data, list.length);
    free(names);
    free(list.data);
}

/* ------------------------------------------------------------------------------------------------- the requests */

typedef struct {
    const char *body;
    size_t head, length, total; /* bytes of the head, of the body, of both as they arrived */
} Request;

/* Decodes a chunked body in place, once all of it is there. */
static bool find_chunked(Connection *c, Request *request) {
    char *data = c->in.data;
    size_t at = request->head, to = request->head, size;
    do {
        char *line = memmem(data + at, c->in.length - at, "\r\n", 2);
        if (!line)
            return false;
        size = strtoul(data + at, NULL, 16);
        at = line - data + 2 + size + 2;
        if (at > c->in.length)
            return false;
    } while (size);
    request->total = at;
    for (at = request->head; at < request->total; at += size + 2) {
        char *line = memmem(data + at, c->in.length - at, "\r\n", 2);
        size = strtoul(data + at, NULL, 16);
        at = line - data + 2;
        memmove(data + to, data + at, size);
        to += size;
    }
    request->length = to - request->head;
    return true;
}

/* The next whole request; false while it is not complete. */
static bool find_request(Connection *c, Request *request) {
    request->head = head_length(&c->in);
    if (!request->head)
        return false;
    request->body = c->in.data + request->head;
    if (starts_with(head_value(c->in.data, request->head, "transfer-encoding"), "chunked"))
        return find_chunked(c, request);
    const char *length = head_value(c->in.data, request->head, "content-length");
    request->length = length ? strtoul(length, NULL, 10) : 0;
    request->total = request->head + request->length;
    return c->in.length >= request->total;
}

static bool contains(const char *data, size_t length, const char *text) {
    return memmem(data, length, text, strlen(text)) != NULL;
}

/* What to answer, from the model's name in the body. */
static void read_script(Connection *c, const Request *request) {
    const char *name = memmem(request->body, request->length, "\"m-", 3);
    char *end = NULL;
    c->pieces = name ? (int)strtoul(name + 3, &end, 10) : 1;
    c->pace_ns = end && *end == '-' ? strtoul(end + 1, &end, 10) * 1000ull : 0;
    c->style = VLLM;
    for (int style = 0; end && *end == '-' && style < STYLES; style++)
        if (starts_with(end + 1, style_names[style]))
            c->style = style;
    c->created = 1700000000 + requests % 1000;
}

static int serve(Connection *c);

/* Goes on with a stream as far as time and socket allow; -1: the connection is dead. */
static int stream(Connection *c) {
    int state = flush(c);
    uint64_t now = now_ns();
    for (int turn = 0; state > 0 && c->next <= c->pieces + 1; turn++) {
        if (c->pace_ns ? c->due > now : turn == PIECES_A_TURN) {
            heap_push(c);
            return 0;
        }
        add_event(c);
        c->due = c->pace_ns ? c->due + c->pace_ns : 0;
        state = flush(c);
    }
    if (state <= 0)
        return state; /* a full socket calls again */
    c->streaming = false;
    return c->close_after ? -1 : serve(c);
}

static void answer(Connection *c, const Request *request) {
    static const char stream_head[] = "HTTP/1.1 200 OK\r\nserver: upstream\r\ncache-control: no-cache\r\n"
                                      "content-type: text/event-stream; charset=utf-8\r\n"
                                      "transfer-encoding: chunked\r\n\r\n";
    const char *connection = head_value(c->in.data, request->head, "connection");
    c->close_after = starts_with(connection, "close") || contains(c->in.data, request->head, " HTTP/1.0\r\n");
    requests++;
    if (strncmp(c->in.data, "POST", 4) != 0) {
        if (contains(c->in.data, request->head, "/models"))
            add_models(c);
        else
            add_json(c, "{\"status\":\"ok\"}", 15);
        return;
    }
    read_script(c, request);
    if (contains(request->body, request->length, "\"stream\":true") ||
        contains(request->body, request->length, "\"stream\": true")) {
        buffer_add(&c->out, stream_head, sizeof stream_head - 1);
        c->next = 0;
        c->due = now_ns();
        c->streaming = true;
    } else {
        add_completion(c);
    }
}

/* Answers the requests that are there; -1: the connection is done. */
static int serve(Connection *c) {
    Request request;
    while (!c->streaming && find_request(c, &request)) {
        c->told_to_continue = false;
        answer(c, &request);
        buffer_drop(&c->in, request.total);
        if (c->streaming)
            return stream(c);
        int state = flush(c);
        if (state <= 0)
            return state;
        if (c->close_after)
            return -1;
    }
    size_t head = c->streaming || c->told_to_continue ? 0 : head_length(&c->in);
    if (head && starts_with(head_value(c->in.data, head, "expect"), "100-continue")) {
        c->told_to_continue = true;
        if (send(c->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL) < 0)
            return -1;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------- the loop */

static void accept_all(int listener) {
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        prepare_socket(fd);
        Connection *c = checked(calloc(1, sizeof *c));
        c->fd = fd;
        c->heap_at = -1;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static void handle(Connection *c, uint32_t events) {
    static char read_buffer[262144];
    int state = 0;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t got = recv(c->fd, read_buffer, sizeof read_buffer, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            state = -1;
        else if (got > 0) {
            buffer_add(&c->in, read_buffer, got);
            state = serve(c);
        }
    }
    if (state >= 0 && events & EPOLLOUT) {
        if (c->streaming)
            state = stream(c);
        else if ((state = flush(c)) > 0)
            state = c->close_after ? -1 : serve(c);
    }
    if (state < 0)
        close_connection(c);
}

static int epoll_until_due(struct epoll_event *events) {
    struct timespec left, *timeout = NULL;
    if (heap_size) {
        uint64_t now = now_ns(), wait = heap[0]->due > now ? heap[0]->due - now : 0;
        left = (struct timespec){.tv_sec = wait / 1000000000ull, .tv_nsec = wait % 1000000000ull};
        timeout = &left;
    }
    return epoll_pwait2(epoll, events, MAX_EVENTS, timeout, NULL);
}

static int listen_on(int port) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) {
        perror("listen");
        exit(1);
    }
    prepare_socket(listener);
    getsockname(listener, (void *)&address, &size);
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void usage(void) {
    puts("upstream: a scripted OpenAI-compatible server on 127.0.0.1; prints its address\n"
         "  --port N          the port to bind (default 0: a free one)\n"
         "  --models A,B,..   the names that GET /v1/models lists; m-<pieces>-<pace us>-<vllm|llama|plain>");
    exit(0);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"port", 1, 0, 'p'},
        {"models", 1, 0, 'm'},
        {"help", 0, 0, 'h'},
        {0}
    };
    static struct epoll_event events[MAX_EVENTS];
    int port = 0, option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'p')
            port = atoi(optarg);
        else if (option == 'm')
            models = optarg;
        else
            usage();
    }
    prepare_process();
    int listener = listen_on(port);
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_until_due(events);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr)
                handle(events[i].data.ptr, events[i].events);
            else
                accept_all(listener);
        }
        uint64_t now = now_ns();
        for (int turns = heap_size; turns-- > 0 && heap_size && heap[0]->due <= now;) { /* each stream once a turn */
            Connection *c = heap[0];
            heap_remove(c);
            if (stream(c) < 0)
                close_connection(c);
        }
    }
}
