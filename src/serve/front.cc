#include "serve/front.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/json.h"
#include "serve/reply_json.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

// Schemes are named in either case.
std::string key_of(const std::string& authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const bool is_bearer = authorization.size() >= kScheme.size() &&
                         std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  return is_bearer ? authorization.substr(kScheme.size()) : "";
}

// The same whatever of it is right.
bool same_key(const std::string& given, const std::string& expected) {
  unsigned different = given.size() != expected.size();
  for (std::size_t i = 0; i < given.size(); ++i)
    different |= static_cast<unsigned char>(given[i] ^ expected[i % expected.size()]);
  return different == 0;
}

void require_method(const HttpRequest& request, const std::string& method, bool head_too) {
  if (request.method != method && !(head_too && request.method == "HEAD"))
    throw Refused(405, fmt::format("{}: got {}, expected {}", request.path, request.method, method));
}

constexpr const char *kModels = "/v1/models", *kHealth = "/health", *kMetrics = "/metrics";

std::vector<std::string> paths_of(const std::vector<Front::Route>& routes, bool is_models) {
  std::vector<std::string> paths;
  for (const Front::Route& route : routes)
    if (route.is_models == is_models) paths.push_back(route.path);
  if (!is_models) paths.insert(paths.end(), {kModels, kHealth, kMetrics});
  return paths;
}

// Without anything of its texts.
std::string line_of(const HttpDone& done) {
  std::string line = fmt::format("{} {} {} {} {} {:.1f} ms", iso_utc(), done.address, done.method,
                                 escape_for_terminal(done.path, 200), done.status, 1000 * done.seconds);
  if (done.prompt_tokens >= 0) line += fmt::format(", {} tokens in", done.prompt_tokens);
  if (done.generated_tokens >= 0) line += fmt::format(", {} out", done.generated_tokens);
  return line;
}

}  // namespace

void refuse(const Reply& reply, const Refused& why) { reply.send(why.status, dumped(error_of(why))); }

ordered_json body_of(const HttpRequest& request) try {
  return io::parse_ordered_json(request.body, "body");
} catch (const Error& error) {
  throw Refused(400, error.what());
}

Front::Front(FrontOptions options, std::vector<Route> routes)
    : options_(std::move(options)),
      routes_(std::move(routes)),
      metrics_(options_.name, paths_of(routes_, true), paths_of(routes_, false)),
      started_(static_cast<std::int64_t>(wall_seconds())) {}

void Front::handle(const HttpRequest& request, const Reply& reply) const try {
  answer(request, reply);
} catch (const Refused& why) {
  refuse(reply, why);
} catch (const std::exception& why) {  // nobody's request may end the server
  log::warning("{}: unexpected: {}", request.path, why.what());
  refuse(reply, Refused(500, fmt::format("unexpected: {}", why.what())));
}

void Front::done(const HttpDone& done) {
  metrics_.count_request(done);
  const bool is_probe = done.status == 200 && (done.path == kHealth || done.path == kMetrics);
  if (options_.log_requests && !is_probe) log::write(log::Level::info, line_of(done));
}

std::vector<std::string> Front::all_paths() const {
  std::vector<std::string> all = paths_of(routes_, true), others = paths_of(routes_, false);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

void Front::answer(const HttpRequest& request, const Reply& reply) const {
  const auto route = std::ranges::find(routes_, request.path, &Route::path);
  const bool is_models = request.path == kModels || request.path == "/v1/models/" + options_.name;
  const bool is_health = request.path == kHealth, is_metrics = request.path == kMetrics;
  if (route == routes_.end() && !is_models && !is_health && !is_metrics)
    throw Refused(404, fmt::format("no such path: {}; this server has {}", request.path, join(all_paths(), ", ")));
  require_method(request, route == routes_.end() ? "GET" : "POST", is_health);
  if (is_health)
    return is_ending_ ? reply.send(503, R"({"status": "ending"})") : reply.send(200, R"({"status": "ok"})");
  if (!options_.api_key.empty() && !same_key(key_of(request.authorization), options_.api_key))
    throw Refused(401, "the header Authorization does not have the key that this server was given", "",
                  "invalid_api_key");
  if (route != routes_.end()) return route->take(request, reply);
  if (is_metrics) return reply.send_as(200, Metrics::kType, metrics_.text());
  const ordered_json models = models_of(options_.name, options_.max_length, started_);
  reply.send(200, dumped(request.path == kModels ? models : models["data"][0]));
}

}  // namespace hone::serve
