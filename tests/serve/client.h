// One request over a socket of its own.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

namespace hone::test {

class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& text) const {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  void ask(const std::string& method, const std::string& path, const std::string& body = "",
           const std::string& headers = "") const {
    send(method + " " + path + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  // Until the server closes, or `end` is there.
  std::string read(const std::string& end = "") const {
    std::string all;
    char part[4096];
    for (ssize_t got; (got = ::recv(socket_, part, sizeof part, 0)) > 0;) {
      all.append(part, static_cast<std::size_t>(got));
      if (!end.empty() && all.find(end) != std::string::npos) break;
    }
    return all;
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
};

struct Answered {
  int status = 0;
  std::string head, body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
};

// Chunks put together.
inline std::string unchunked(const std::string& text) {
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line = text.find("\r\n", at);
    const std::size_t size = std::stoul(text.substr(at, line - at), nullptr, 16);
    if (size == 0) break;
    all += text.substr(line + 2, size);
    at = line + 4 + size;
  }
  return all;
}

inline Answered answer_of(const std::string& text) {
  const std::size_t end = text.find("\r\n\r\n");
  Answered made;
  if (end == std::string::npos) return made;
  made.head = text.substr(0, end), made.body = text.substr(end + 4);
  made.status = std::stoi(text.substr(9, 3));
  if (made.head.find("chunked") != std::string::npos) made.body = unchunked(made.body);
  return made;
}

inline Answered asked(int port, const std::string& method, const std::string& path, const std::string& body = "",
                      const std::string& headers = "") {
  const Client client(port);
  client.ask(method, path, body, headers);
  return answer_of(client.read());
}

}  // namespace hone::test
