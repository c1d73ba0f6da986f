// A stream's position as JSON.
#include "data/stream_position.h"

#include <nlohmann/json.hpp>

#include "hone/error.h"

namespace hone::data {
namespace {

nlohmann::json mark_to_json(const StreamMark& mark) {
  nlohmann::json out{{"pass", mark.pass}, {"records", mark.records}, {"file", mark.file}, {"hash", mark.hash}};
  if (mark.place) out["line"] = mark.place->line, out["offset"] = mark.place->offset;
  return out;
}

StreamMark mark_from_json(const nlohmann::json& in) {
  StreamMark mark{in.at("pass").get<std::int64_t>(),
                  in.at("records").get<std::int64_t>(),
                  in.at("file").get<std::int64_t>(),
                  {},
                  in.at("hash").get<std::uint64_t>()};
  if (in.contains("offset")) mark.place = {in.at("line").get<std::int64_t>(), in.at("offset").get<std::uint64_t>()};
  if (mark.pass < 0 || mark.records < 0 || mark.file < 0) throw Error(ErrorKind::data, "a count below 0");
  return mark;
}

// Those that are not 0.
nlohmann::json counts_to_json(const DataReport& counts) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, member] : kWindowCounts)
    if (counts.*member != 0) out[name] = counts.*member;
  return out;
}

std::optional<DataReport> counts_from_json(const nlohmann::json& position) {
  if (!position.contains("counts")) return std::nullopt;
  DataReport counts;
  for (const auto& [name, member] : kWindowCounts) {
    counts.*member = position.at("counts").value(name, std::int64_t{0});
    if (counts.*member < 0) throw Error(ErrorKind::data, "a count below 0");
  }
  return counts;
}

}  // namespace

std::string to_json(const StreamPosition& position) {
  nlohmann::json entries = nlohmann::json::array();
  for (const EntryPosition& entry : position.entries)
    entries.push_back({{"at", mark_to_json(entry.at)},
                       {"from", mark_to_json(entry.from)},
                       {"pass_start", mark_to_json(entry.pass_start)},
                       {"tokens", entry.tokens},
                       {"read", mark_to_json(entry.read)}});
  nlohmann::json out{{"window", position.window}, {"row", position.row}, {"entries", entries}};
  if (position.counts) out["counts"] = counts_to_json(*position.counts);
  return out.dump();
}

StreamPosition stream_position_from_json(const std::string& text) {
  try {
    const nlohmann::json in = nlohmann::json::parse(text);
    StreamPosition position{in.at("window").get<std::int64_t>(), in.at("row").get<std::int64_t>()};
    if (position.window < 0 || position.row < 0) throw Error(ErrorKind::data, "a count below 0");
    for (const nlohmann::json& entry : in.at("entries"))
      position.entries.push_back({mark_from_json(entry.at("at")), mark_from_json(entry.at("from")),
                                  mark_from_json(entry.at("pass_start")), entry.at("tokens").get<std::int64_t>(),
                                  mark_from_json(entry.at("read"))});
    position.counts = counts_from_json(in);
    return position;
  } catch (const nlohmann::json::exception& problem) {
    throw Error(ErrorKind::data, std::string("data_position: not the position of a stream: ") + problem.what());
  }
}

}  // namespace hone::data
