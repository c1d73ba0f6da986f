// Runs a transcript: commands, what they print and how they exit. Usage: transcript [--markdown] FILE...
//
//   needs data              (at the top) skipped with a message when HONE_TEST_DATA is not set
//   # a comment
//   $ hone tokenize bytes "Hi!"      a command for bash; lines "> ..." below go on with it (here-documents)
//   72 105 33               what it must print, standard output and error together; … is any text within a line,
//   …                       a line of only … is any number of lines
//   exit 3                  how it must exit; without this line: 0
//
// All commands run in one temporary folder. With --markdown the transcript is every ```console block of the file.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE
constexpr std::string_view kAny = "…";

struct Command {
  int line = 0;
  std::string text;
  std::vector<std::string> expected;
  int exit = 0;
};

struct Transcript {
  bool needs_data = false;
  std::vector<Command> commands;
};

bool starts_with_number(const std::string& line) {
  return line.rfind("exit ", 0) == 0 && line.find_first_not_of("0123456789", 5) == std::string::npos && line.size() > 5;
}

// One line of a transcript, put where it belongs.
void take(const std::string& line, int number, Transcript& transcript) {
  std::vector<Command>& commands = transcript.commands;
  const bool in_command = !commands.empty() && commands.back().expected.empty();
  if (line.rfind("$ ", 0) == 0) {
    commands.push_back({number, line.substr(2), {}, 0});
  } else if (in_command && (line.rfind("> ", 0) == 0 || line == ">")) {
    commands.back().text += "\n" + (line.size() > 2 ? line.substr(2) : "");
  } else if (commands.empty()) {
    if (line == "needs data") transcript.needs_data = true;
  } else if (line.rfind("# ", 0) == 0) {
    return;
  } else if (starts_with_number(line)) {
    commands.back().exit = std::stoi(line.substr(5));
  } else {
    commands.back().expected.push_back(line);
  }
}

Transcript read(const std::string& path, bool markdown) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  Transcript transcript;
  bool inside = !markdown;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (markdown && line.rfind("```", 0) == 0)
      inside = !inside && line == "```console";
    else if (inside)
      take(line, number, transcript);
  }
  for (Command& command : transcript.commands)
    while (!command.expected.empty() && command.expected.back().empty()) command.expected.pop_back();
  return transcript;
}

// Whether `pattern`, in which … is any text, is all of `text`.
bool line_matches(std::string_view pattern, std::string_view text) {
  const std::size_t any = pattern.find(kAny);
  if (any == std::string_view::npos) return pattern == text;
  if (text.substr(0, any) != pattern.substr(0, any)) return false;
  const std::string_view rest = pattern.substr(any + kAny.size());
  for (std::size_t from = any; from <= text.size(); ++from)
    if (line_matches(rest, text.substr(from))) return true;
  return false;
}

// Whether lines from `l` on match patterns from `p` on; `furthest` is the last line reached, for the report.
bool lines_match(const std::vector<std::string>& patterns, std::size_t p, const std::vector<std::string>& lines,
                 std::size_t l, std::size_t& furthest) {
  for (; p < patterns.size(); ++p, ++l) {
    furthest = std::max(furthest, l);
    if (patterns[p] == kAny) {
      for (std::size_t from = l; from <= lines.size(); ++from)
        if (lines_match(patterns, p + 1, lines, from, furthest)) return true;
      return false;
    }
    if (l == lines.size() || !line_matches(patterns[p], lines[l])) return false;
  }
  furthest = std::max(furthest, l);
  return l == lines.size();
}

struct Outcome {
  std::vector<std::string> lines;
  int exit = 0;
};

Outcome run(const std::string& command) {
  std::ofstream(".command") << command << "\n";
  FILE* pipe = popen("bash .command 2>&1 </dev/null", "r");
  if (pipe == nullptr) throw std::runtime_error("bash cannot be started");
  std::string text;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  const int status = pclose(pipe);
  Outcome outcome;
  outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) outcome.lines.push_back(line);
  while (!outcome.lines.empty() && outcome.lines.back().empty()) outcome.lines.pop_back();
  return outcome;
}

bool check(const std::string& path, const Command& command) {
  const Outcome got = run(command.text);
  std::size_t furthest = 0;
  const bool matches = lines_match(command.expected, 0, got.lines, 0, furthest);
  if (matches && got.exit == command.exit) return true;
  std::cout << path << ":" << command.line << ": $ " << command.text << "\n";
  if (got.exit != command.exit) std::cout << "got exit " << got.exit << ", expected exit " << command.exit << "\n";
  if (!matches) {
    std::cout << "expected:\n";
    for (const std::string& line : command.expected) std::cout << "  " << line << "\n";
  }
  std::cout << "got:\n";
  for (std::size_t i = 0; i < got.lines.size(); ++i)
    std::cout << (!matches && i == furthest ? "> " : "  ") << got.lines[i] << "\n";
  if (!matches && furthest >= got.lines.size()) std::cout << "> (the output ends here)\n";
  return false;
}

// A folder for one transcript, which is removed afterwards; the program runs in it.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "hone-cli-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + ": cannot be made");
    std::filesystem::current_path(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::current_path("/", ignored);
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
};

int run_file(const std::string& path, bool markdown) {
  const Transcript transcript = read(path, markdown);
  const char* data = std::getenv("HONE_TEST_DATA");
  if (transcript.needs_data && (data == nullptr || *data == '\0')) {
    std::cout << path << ": skipped, HONE_TEST_DATA is not set\n";
    return kSkipped;
  }
  if (transcript.commands.empty()) throw std::runtime_error(path + ": holds no command ($ ...)");
  const Folder folder;
  for (const Command& command : transcript.commands)
    if (!check(path, command)) return 1;
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  bool markdown = false;
  int status = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--markdown") {
      markdown = true;
    } else {
      const int now = run_file(std::filesystem::absolute(argv[i]).string(), markdown);
      if (now != 0) status = now;
    }
  }
  return status;
} catch (const std::exception& error) {
  std::cerr << "transcript: " << error.what() << "\n";
  return 1;
}
