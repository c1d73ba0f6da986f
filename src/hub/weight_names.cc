// Names are those of files, and are declared in the model's code.
#include "hub/weight_names.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>

#include "base/strings.h"
#include "io/safetensors_header.h"

namespace hone::hub {
namespace {

// "layers..weight" of a weight or child whose own name is empty where something has to stand.
bool lacks_a_part(const std::string& name) {
  return name.empty() || name.starts_with('.') || name.ends_with('.') || name.find("..") != std::string::npos;
}

std::optional<std::string> problem_of(const std::string& name) {
  if (lacks_a_part(name)) return "a part of its name is empty; expected one for each weight";
  if (!is_utf8(name)) return "its name is not UTF-8";
  return io::name_problem(name);
}

}  // namespace

void check_weight_names(const Module& model) {
  std::set<std::string> met;
  model.each_weight([&](const std::string& name, const Weight&) {
    const std::optional<std::string> problem =
        met.insert(name).second ? problem_of(name) : "two weights of this name; expected another for each";
    if (problem) throw Error(ErrorKind::bug, fmt::format("the model's weight {}: {}", hone::quoted(name), *problem))
        .hint("names are given to parameter(), buffer() and child() in the model's code");
  });
}

}  // namespace hone::hub
