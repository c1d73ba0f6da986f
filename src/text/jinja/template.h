// A Jinja template that can be rendered: the subset that chat templates use, with the results of jinja2's
// ImmutableSandboxedEnvironment as transformers sets it up. It reaches nothing but its variables.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace hone::jinja {

struct Program;

// Immutable: any thread may render.
class Template {
 public:
  // name begins every message: "chat_template.jinja:3: ...". Throws Error(config).
  Template(std::string_view source, std::string name, Spacing spacing = Spacing::of_chat_templates);
  ~Template();

  struct Rendered {
    std::string text;
    Origins origins;  // of the text, where the variables hold marked texts
    // Bytes [first, second) that {% generation %} blocks wrote, in the order of the text.
    std::vector<std::pair<std::size_t, std::size_t>> generated;
  };
  // now: for strftime_now, seconds since 1970. Throws Error(data) that names the line: what the template raises, what
  // it uses wrongly, or a limit that it exceeds.
  Rendered render(const Dict& variables, std::int64_t now, const Limits& limits = {},
                  Undefined undefined = Undefined::prints_nothing) const;

  bool tracks_generation() const;  // it has {% generation %} blocks
  // The variables that it reads: names that it does not set itself and that jinja does not know.
  std::set<std::string> variables() const;
  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }

 private:
  std::string source_, name_;
  std::unique_ptr<Program> program_;
};

}  // namespace hone::jinja
