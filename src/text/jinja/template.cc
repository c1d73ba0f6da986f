// From a Fault to an Error with the template's name and line.
#include "text/jinja/template.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "hone/error.h"
#include "text/jinja/ast.h"
#include "text/jinja/call.h"
#include "text/jinja/fault.h"
#include "text/jinja/run.h"
#include "text/jinja/symbols.h"

namespace hone::jinja {
namespace {

constexpr std::size_t kMaxSource = 4'000'000;

Error error_of(const Fault& fault, ErrorKind kind, const std::string& name) {
  const std::string place = fault.line > 0 ? fmt::format("{}:{}", name, fault.line) : name;
  return Error(kind, fmt::format("{}: {}", place, escape_for_terminal(fault.message, 1000)));
}

}  // namespace

Template::Template(std::string_view source, std::string name, Spacing spacing)
    : source_(source), name_(std::move(name)), program_(std::make_unique<Program>()) {
  if (source.size() > kMaxSource)
    throw Error(ErrorKind::config, fmt::format("{}: {} bytes; expected at most {}", name_, source.size(), kMaxSource));
  if (!is_utf8(source)) throw Error(ErrorKind::config, name_ + ": invalid UTF-8");
  try {
    *program_ = parse(source, spacing);
    resolve_names(*program_);
  } catch (const Fault& fault) {
    throw error_of(fault, ErrorKind::config, name_);
  }
}

Template::~Template() = default;

bool Template::tracks_generation() const { return program_->tracks_generation; }

std::set<std::string> Template::variables() const {
  std::set<std::string> names = inputs_of(*program_);
  std::erase_if(names, [](const std::string& name) { return find_global(name).has_value(); });
  return names;
}

Template::Rendered Template::render(const Dict& variables, std::int64_t now, const Limits& limits,
                                    Undefined undefined) const {
  const Budget budget(limits);
  Rendered rendered;
  try {
    Run run(*program_, {variables, now, limits, undefined});
    Traced traced = run.render();
    rendered.text = std::move(traced.text);
    rendered.origins = std::move(traced.origins);
    for (const Run::Generated& block : run.generated()) {
      // A block inside a macro or a set block has only the place where that is written: perhaps not its own.
      if (rendered.text.compare(block.begin, block.text.size(), block.text) != 0)
        throw Error(ErrorKind::data, fmt::format("{}: a generation block inside a macro or a set block: its place in "
                                                 "the text is not known",
                                                 name_))
            .hint("write {% generation %} where the text is written");
      rendered.generated.emplace_back(block.begin, block.begin + block.text.size());
    }
  } catch (const Fault& fault) {
    throw error_of(fault, ErrorKind::data, name_);
  }
  return rendered;
}

}  // namespace hone::jinja
