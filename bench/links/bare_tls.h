// The rival of a link: a TLS session on a blocking TCP socket between two processes, and nothing else.
#pragma once

#include "net/tls.h"
#include "processes.h"

#include <cstddef>
#include <span>

namespace chaos::bench {

class BareTls {
public:
    // Process 0 listens, process 1 connects; returns when the session stands.
    BareTls(Meeting& meeting, unsigned number);
    ~BareTls();
    BareTls(const BareTls&) = delete;
    BareTls& operator=(const BareTls&) = delete;

    void write(std::span<const std::byte> bytes);
    void read(std::span<std::byte> into);

private:
    net::Tls tls_;
    int socket_ = -1;
    std::unique_ptr<ssl_st, void (*)(ssl_st*)> session_;
};

}  // namespace chaos::bench
