// TensorBoard's event files: records with checksums around the few protobuf messages that a run needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::trackers {

// What the name of each begins with. TensorBoard reads those of a folder in the order of their names.
inline constexpr std::string_view kEventFile = "events.out.tfevents.";

struct EventPlace {
  double wall = 0;  // seconds since 1970
  std::int64_t step = 0;
};

// Each is one record.
std::string version_record(double wall);     // the first one of a file
std::string start_record(EventPlace place);  // a second one drops what came before of this step and later ones
std::string scalar_record(EventPlace place, std::string_view tag, double value);  // rounded to a float
std::string text_record(EventPlace place, std::string_view tag, std::string_view text);

// A record that was read, as far as these four go.
struct Event {
  struct Value {
    std::string tag, text;
    std::optional<float> number;
  };
  EventPlace place;
  std::string version;
  bool is_start = false;
  std::vector<Value> values;
};
// Those of a file, up to the first one that is cut off or damaged.
void each_event(std::string_view file, const std::function<void(const Event&)>& visit);

}  // namespace hone::trackers
