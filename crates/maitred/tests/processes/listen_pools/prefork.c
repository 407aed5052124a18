/* A prefork server at its plainest: accept, answer, close, on the descriptor of its argument. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int listener = argc > 1 ? atoi(argv[1]) : 3;
    for (;;) {
        char request[4096], body[32], answer[256];
        size_t have = 0;
        int client = accept(listener, NULL, NULL);
        if (client < 0)
            return 1;
        while (have + 1 < sizeof request) {
            ssize_t got = read(client, request + have, sizeof request - 1 - have);
            if (got <= 0)
                break;
            have += got;
            request[have] = 0;
            if (strstr(request, "\r\n\r\n"))
                break;
        }
        snprintf(body, sizeof body, "%d\n", (int)getpid());
        int size = snprintf(answer, sizeof answer,
            "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(body), body);
        if (write(client, answer, size) != size)
            return 1;
        close(client);
    }
}
