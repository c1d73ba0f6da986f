// Which modules an adapter_config.json selects.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace hone::hub {

// PEFT's target_modules, exclude_modules, layers_to_transform, layers_pattern and target_parameters. PEFT puts an
// adapter on each module of the base that they select, and leaves out what the file has for others.
class AdapterSelection {
 public:
  AdapterSelection() = default;  // selects all
  // file: for messages. Throws Error(checkpoint) for values of a wrong type.
  AdapterSelection(const nlohmann::json& config, const std::string& file);
  bool selects(const std::string& module) const;
  // An expression that only Python's library reads: then it selects all. "": there is none.
  const std::string& unread() const { return unread_; }

 private:
  struct Names {
    std::vector<std::string> ends;         // whole names, or their ends behind a dot
    std::optional<std::string> expression;  // of whole names
    bool fit(const std::string& module) const;
  };
  Names names_at(const nlohmann::json& config, const char* key, const std::string& file);
  void read_layers(const nlohmann::json& config, const std::string& file);
  bool in_layers(const std::string& module) const;
  Names targets_, excluded_;
  Names parameters_;                  // whose modules are selected, whatever the others say
  std::vector<std::int64_t> layers_;  // empty: all
  std::vector<std::string> layers_patterns_;
  bool all_ = true;
  std::string unread_;
};

}  // namespace hone::hub
