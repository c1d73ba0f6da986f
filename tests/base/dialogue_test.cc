// Commands that are spoken with: what is heard of them, how they end, and that nothing of them stays.
#include "base/dialogue.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/clock.h"
#include "harness/files.h"

namespace hone {
namespace {

class Spoken : public test::WithFolder {
 protected:
  static std::string all_of(const Dialogue::Heard& heard) {
    std::string text = heard.failure;
    for (const std::string& line : heard.lines) text += "|" + line;
    return text;
  }
};

constexpr const char* kEcho = "while read -r line; do echo \"got $line\"; done";

TEST_F(Spoken, AnswersLineByLineForAsLongAsItIsSpokenTo) {
  Dialogue talk(kEcho, {});
  EXPECT_EQ(all_of(talk.say("a\n", 1)), "|got a");
  EXPECT_EQ(all_of(talk.say("b\nc\n", 2)), "|got b|got c");
  EXPECT_EQ(talk.finish(), "");
  EXPECT_EQ(all_of(talk.say("d\n", 1)), "it has ended");
}
TEST_F(Spoken, MayReadEverythingBeforeItAnswers) {
  std::string input;
  for (int i = 0; i < 20000; ++i) input += std::string(50, 'x') + "\n";  // more than pipes hold
  Dialogue talk("n=0; while read -r line; do n=$((n + 1)); if [ $n = 20000 ]; then seq 20000; fi; done", {});
  const auto heard = talk.say(input, 20000);
  EXPECT_EQ(heard.failure, "");
  ASSERT_EQ(heard.lines.size(), 20000u);
  EXPECT_EQ(heard.lines.back(), "20000");
}
TEST_F(Spoken, SaysWhyItWasNotHeard) {
  const auto said = [](const std::string& command, double seconds = 20) {
    Dialogue talk(command, {.seconds = seconds});
    return all_of(talk.say("a\nb\n", 2));
  };
  EXPECT_EQ(said("exit 3"), "exit code 3 after 0 of 2 lines");
  EXPECT_EQ(said("read -r x; echo 1; exit 4"), "exit code 4 after 1 of 2 lines|1");
  EXPECT_EQ(said("read -r x; echo 1"), "ended after 1 of 2 lines|1");
  EXPECT_EQ(said("kill -9 $$"), "ended by signal 9 after 0 of 2 lines");
  EXPECT_EQ(said("read -r x; echo 1; sleep 100", 0.3), "no further line for 0.3 s, so it was ended|1");
  EXPECT_EQ(said("/no/such/program 2> /dev/null"), "exit code 127 after 0 of 2 lines");
  // Each line has its own time.
  EXPECT_EQ(said("read -r x; sleep 0.8; echo 1; sleep 0.8; echo 2; cat", 1.2), "|1|2");
  Dialogue endless("yes", {.most_output = 1 << 16});
  EXPECT_EQ(endless.say("a\n", 1 << 30).failure, "wrote more than 65.5 kB");
}
TEST_F(Spoken, EndsWhenThereIsNothingMoreToRead) {
  const auto ended = [](const std::string& command, double seconds = 20) {
    Dialogue talk(command, {.seconds = seconds});
    EXPECT_EQ(talk.say("a\n", 1).failure, "");
    return talk.finish();
  };
  EXPECT_EQ(ended("read -r x; echo 1; read -r x; exit 5"), "exit code 5");
  EXPECT_EQ(ended("read -r x; echo 1; echo 2"), "wrote more than was asked for: \"2\\n\"");
  EXPECT_EQ(ended("read -r x; echo 1; sleep 100", 2), "not done after 2 s, so it was ended");
}
TEST_F(Spoken, IsHeardToItsLastWordAlsoWhereItHasEnded) {
  Dialogue talk("echo 1; exit 3", {});
  usleep(300000);  // by now it has ended, mostly
  EXPECT_EQ(all_of(talk.say("", 1)), "|1");
  EXPECT_EQ(talk.finish(), "exit code 3");
  Dialogue short_of("echo 1; exit 3", {});
  EXPECT_EQ(all_of(short_of.say("", 1)), "|1");
  EXPECT_EQ(all_of(short_of.say("", 1)), "exit code 3 after 0 of 1 line");
}
TEST_F(Spoken, EndsWithTheProcessThatSpeaks) {
  const std::string file = (folder_ / "pid").string();
  const pid_t speaker = fork();
  if (speaker == 0) {
    // A group of two, neither of which reads: the end of its input tells it nothing.
    const std::string inner = "echo $$ > " + file + "; echo up; exec sleep 100";
    Dialogue talk("sh -c '" + inner + "' & wait", {.seconds = 100});
    talk.say("a\n", 1);
    raise(SIGKILL);
  }
  waitpid(speaker, nullptr, 0);
  const int pid = std::stoi(test::content_of(file));
  ASSERT_GT(pid, 1);
  const auto is_there = [&] {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    return std::getline(stat, line) && line.find(") Z") == std::string::npos;
  };
  for (int tries = 0; is_there() && tries < 2000; ++tries) usleep(10000);
  EXPECT_FALSE(is_there());
}
TEST_F(Spoken, LeavesNothingBehind) {
  const std::string file = (folder_ / "pid").string();
  const Stopwatch watch;
  {
    Dialogue talk("sleep 100 & echo $! > " + file + "; " + kEcho, {});
    EXPECT_EQ(all_of(talk.say("a\n", 1)), "|got a");
  }
  const int pid = std::stoi(test::content_of(file));
  for (int tries = 0; kill(pid, 0) == 0 && tries < 500; ++tries) usleep(10000);
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_LT(watch.seconds(), 30);
}

}  // namespace
}  // namespace hone
