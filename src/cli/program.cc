// The one place where errors become text and exit codes.
#include "cli/program.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/program_words.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "config/command_line.h"
#include "config/home.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "hone/stamp.h"

namespace hone::cli {
namespace {

const std::string kNoMemory = "out of memory; a smaller batch, shorter rows or a smaller model need less";

// Flags that stand before the command's name.
struct GlobalFlags {
  bool help = false, version = false, debug = false;
  CommonFlags common;
  std::vector<std::string> plugins;
};

// What was built with other headers sees hone's types otherwise than this program does: it would crash, or read what is
// not there.
void check_stamp(void* library, const std::string& path) {
  const auto stamp = reinterpret_cast<const char* (*)()>(dlsym(library, "hone_stamp"));
  const std::string got = stamp ? stamp() : "";
  if (got == hone_stamp()) return;
  throw Error(ErrorKind::usage,
              fmt::format("--plugin {}: built for another hone; its headers: got {}, expected {}", path,
                          got.empty() ? "no stamp" : "stamp " + hone::quoted(got), hone_stamp()))
      .hint("build it again with the headers of this hone, hone/stamp.h among them: link hone::plugin");
}

void load_plugin(const std::string& path) {
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;  // else it is looked for elsewhere
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) throw Error(ErrorKind::usage, fmt::format("--plugin {}: cannot be loaded: {}", path, dlerror()));
  const auto add = reinterpret_cast<void (*)(Registries&)>(dlsym(library, "hone_register"));
  if (!add)
    throw Error(ErrorKind::usage, fmt::format("--plugin {}: no function hone_register in it", path))
        .hint("define extern \"C\" void hone_register(hone::Registries&)");
  check_stamp(library, path);
  try {
    add(registries());
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("--plugin {}: {}", path, error.what()));
  }
}

// Shells leave the ~ of --plugin=~/x.so alone.
std::string plugin_path(const std::string& given) {
  if (const auto path = config::with_home(given)) return *path;
  throw Error(ErrorKind::usage, fmt::format("--plugin {}: HOME is not set; expected a path without ~", given));
}

// Takes the flags before the command off the front.
GlobalFlags take_global_flags(Arguments& arguments) {
  GlobalFlags flags;
  while (!arguments.empty() && arguments[0].starts_with("-")) {
    const std::string flag = arguments[0];
    arguments.erase(arguments.begin());
    if (flag == "--help" || flag == "-h") flags.help = true;
    else if (flag == "--version") flags.version = true;
    else if (flag == "--debug") flags.debug = true;
    else if (flag == "--json") flags.common.json = true;
    else if (flag == "--quiet") flags.common.quiet = true;
    else if (flag.starts_with("--plugin=")) flags.plugins.push_back(plugin_path(flag.substr(9)));
    else if (flag == "--plugin" && !arguments.empty())
      flags.plugins.push_back(plugin_path(arguments[0])), arguments.erase(arguments.begin());
    else
      throw Error(ErrorKind::usage, flag + ": no such flag before the command").hint("hone --help lists what there is");
  }
  return flags;
}

void check_count(const std::string& name, const Usage& usage, std::size_t count) {
  if (count >= usage.least && count <= usage.most) return;
  throw Error(ErrorKind::usage,
              fmt::format("hone {}: got {} argument{}, expected {}", name, count, count == 1 ? "" : "s",
                          usage.least == usage.most ? std::to_string(usage.least)
                                                    : fmt::format("{} to {}", usage.least, usage.most)))
      .hint(fmt::format("usage: hone {} {}", name, usage.synopsis));
}

int print(const std::string& text, const nlohmann::ordered_json& json) {
  log::form() == log::Form::json ? write_json(json) : void(std::cout << text);
  return 0;
}

// Whether errors before the flags have been read are told as JSON.
bool asks_for_json(const Arguments& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

void use(const CommonFlags& flags) {
  log::set_form(flags.json ? log::Form::json : log::Form::text);
  log::set_level(flags.quiet ? log::Level::warning : log::Level::info);
}

// What other programs call so; "": nothing is known of it.
std::string words_by_other_name(const std::string& name) {
  constexpr std::pair<const char*, const char*> kWords[] = {{"chat", "hone generate MODEL --chat"},
                                                            {"predict", "hone classify, or hone generate"},
                                                            {"serve", "there is no server; hone generate answers"},
                                                            {"finetune", "hone train --model.path=MODEL"},
                                                            {"fine-tune", "hone train --model.path=MODEL"},
                                                            {"sft", "hone train --model.path=MODEL"},
                                                            {"dpo", "hone train --objective=dpo"},
                                                            {"lora", "hone train --adapter lora"},
                                                            {"resume", "hone train with the same recipe goes on"},
                                                            {"convert", "hone export"}};
  for (const auto& [other, words] : kWords)
    if (name == other) return words;
  return "";
}

int run_command(const std::string& name, const Arguments& arguments, const GlobalFlags& before) {
  const auto& commands = registries().commands;
  if (!commands.find(name)) {
    Error error(ErrorKind::usage, hone::quoted(name) + ": no such command; there are " + join(commands.names(), ", "));
    const std::string close = nearest(name, commands.names());
    if (const std::string words = words_by_other_name(name); !words.empty()) throw std::move(error).hint(words);
    if (close.empty()) throw error;
    throw std::move(error).hint("did you mean " + close + "?");
  }
  const auto options = commands.options(name);
  const Usage usage = commands.make(name, *options)->usage();
  const bool alone = !usage.together || join_ranks().size() == 1;  // from here on an error of ranks is told once
  config::OptionsOf<CommonFlags> common;
  common.value = before.common;
  config::CommandLine line = config::parse_command_line(
      arguments, *options, {usage.takes_overrides, usage.sections, usage.switches, usage.passes_on}, &common);
  if (line.help) return print(help_of(*commands.find(name)), help_json(*commands.find(name)));
  use(common.value);
  // How a rank ends is its launcher's to see.
  alone ? end_at_stop_signals(common.value.json, use_escapes()) : die_of_stop_signals();
  if (usage.together) announce_ranks();
  for (const std::string& note : line.notes) log::warning("{}", note);
  const auto command = commands.make(name, *options);
  check_count(name, usage, line.positionals.size());
  return command->run({std::move(line.positionals), std::move(line.overrides), common.value.json, common.value.quiet,
                       before.plugins, std::move(line.flags)});
}

int run(Arguments arguments, GlobalFlags& flags) {
  flags = take_global_flags(arguments);
  for (const std::string& plugin : flags.plugins) load_plugin(plugin);
  remember_plugins(flags.plugins);
  if (flags.version) return print("hone " HONE_VERSION "\n", {{"version", HONE_VERSION}});
  if (flags.help || (!arguments.empty() && arguments[0] == "help" && arguments.size() == 1))
    return print(overview(), overview_json());
  if (arguments.empty()) {
    if (flags.common.json) throw Error(ErrorKind::usage, "no command").hint("hone --help lists what there is");
    std::cerr << overview();
    return static_cast<int>(ErrorKind::usage);
  }
  if (arguments[0] == "help") arguments = {arguments[1], "--help"};
  const std::string name = arguments[0];
  arguments.erase(arguments.begin());
  return run_command(name, arguments, flags);
}

int report(const std::string& error, ErrorKind kind) {
  std::cout.flush();
  log::set_status("");
  const std::optional<std::string> text = own_words(error, static_cast<int>(kind));
  if (!text) return static_cast<int>(kind);
  if (log::form() == log::Form::json)
    std::cerr << one_line(error_json(*text, kind)) << '\n';
  else
    std::cerr << (kind == kStopped ? "" : "error: ") << safe_lines(*text) << '\n';
  return static_cast<int>(kind);
}

// LibTorch's message without its stack.
std::string first_part(const char* text) {
  const std::string all = text;
  const auto stack = all.find("\nException raised from");
  return stack == std::string::npos ? all : all.substr(0, stack);
}

}  // namespace

namespace {

int run_and_report(const Arguments& arguments) {
  ignore_write_signals();
  GlobalFlags flags;
  use({.json = asks_for_json(arguments)});
  try {
    const int code = run(arguments, flags);
    if (!std::cout.flush() && errno == EPIPE) return 128 + SIGPIPE;  // nobody reads on, as behind head: no error
    if (!std::cout)
      throw Error(ErrorKind::data, std::string("standard output: cannot be written: ") + std::strerror(errno));
    return code;
  } catch (const Error& error) {
    std::string text = error.what();
    if (flags.debug) text += fmt::format("\n  thrown at {}:{}", error.where().file_name(), error.where().line());
    return report(text, error.kind());
  } catch (const c10::Error& error) {
    const std::string text = flags.debug ? error.what() : first_part(error.what_without_backtrace());
    const bool memory =
        text.find("allocate memory") != std::string::npos || text.find("out of memory") != std::string::npos;
    return memory ? report(kNoMemory + ": " + text, ErrorKind::data) : report("LibTorch: " + text, ErrorKind::bug);
  } catch (const std::bad_alloc&) {
    return report(kNoMemory, ErrorKind::data);
  } catch (const std::exception& error) {
    std::string text = std::string("unexpected: ") + error.what();
    if (!flags.plugins.empty()) text += "; it may come from a plug-in, which should throw hone::Error";
    return report(text, ErrorKind::bug);
  } catch (...) {
    return report("unexpected: what was thrown is no std::exception; it may come from a plug-in, which should throw "
                  "hone::Error",
                  ErrorKind::bug);
  }
}

}  // namespace

int run_program(const Arguments& arguments) {
  const int code = run_and_report(arguments);
  leave_ranks(code);
  return code;
}

}  // namespace hone::cli
