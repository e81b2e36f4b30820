// Program go-client sends numbered messages with RocketMQ's Go producer, on its defaults, and writes the ledger of
// LoadClient.java: one JSON object a send, in the order in which they ended.
//
// Each flag has the meaning of the option of the same name there. The client asks for routes every 30 s, which is
// a constant of its package. With --poll-name-server-ms the program calls the same method of the client more often.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	acknowledged = "SEND_OK"
	ledgerLines  = 100_000
	behindMax    = time.Second
)

type line struct {
	Sequence int64  `json:"seq"`
	Key      string `json:"key"`
	StartNs  int64  `json:"start_ns"`
	EndNs    int64  `json:"end_ns"`
	Status   string `json:"status"`
	Broker   string `json:"broker,omitempty"`
	Queue    int    `json:"queue"`
	Offset   int64  `json:"offset"`
	Problem  string `json:"problem,omitempty"`
}

type routeAsker interface{ UpdateTopicRouteInfo() }

type sender interface {
	Start() error
	Shutdown() error
	SendSync(context.Context, ...*primitive.Message) (*primitive.SendResult, error)
}

// clock gives wall times that follow one monotonic clock.
type clock struct{ start time.Time }

func (c clock) nowNs() int64 { return c.start.UnixNano() + time.Since(c.start).Nanoseconds() }

func main() {
	nameServer := flag.String("name-server", "", "host:port, several separated by ;")
	topic := flag.String("topic", "", "the topic")
	ledger := flag.String("ledger", "", "the file that receives one line a send")
	threads := flag.Int("threads", 4, "senders, each waiting for its answer")
	rate := flag.Int("rate", 0, "sends per second over all senders; 0 is as fast as answers come")
	payloadBytes := flag.Int("payload-bytes", 128, "size of a body")
	pollMs := flag.Int("poll-name-server-ms", 0, "how often to ask for routes; 0 is the client's own 30 s")
	flag.Parse()
	rlog.SetLogLevel("fatal")

	ticks := clock{time.Now()}
	run := fmt.Sprintf("g%x", ticks.start.UnixNano())
	client, err := producer.NewDefaultProducer(
		producer.WithNameServer(strings.Split(*nameServer, ";")),
		producer.WithGroupName("load-"+run),
		producer.WithInstanceName(run),
	)
	exitOn(err)
	exitOn(client.Start())
	fmt.Printf("{\"started\":true,\"run\":%q}\n", run)
	if *pollMs > 0 {
		go askForRoutes(client, time.Duration(*pollMs)*time.Millisecond)
	}

	stop := make(chan struct{})
	lines := make(chan line, ledgerLines)
	written := make(chan struct{})
	go write(*ledger, lines, written)
	var sequence atomic.Int64
	var senders sync.WaitGroup
	for i := 0; i < *threads; i++ {
		var interval time.Duration
		if *rate > 0 {
			interval = time.Second * time.Duration(*threads) / time.Duration(*rate)
		}
		senders.Add(1)
		go func(offset time.Duration) {
			defer senders.Done()
			due := time.Now().Add(offset)
			for wait(stop, &due, interval) {
				number := sequence.Add(1) - 1
				key := fmt.Sprintf("%s-%d", run, number)
				lines <- send(client, ticks, *topic, key, number, *payloadBytes)
			}
		}(interval * time.Duration(i) / time.Duration(*threads))
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	close(stop)
	senders.Wait()
	close(lines)
	<-written
	exitOn(client.Shutdown())
}

// wait returns at the next due time, false if the program must stop. After an outage the schedule starts anew.
func wait(stop <-chan struct{}, due *time.Time, interval time.Duration) bool {
	left := time.Until(*due)
	select {
	case <-stop:
		return false
	case <-time.After(max(left, 0)):
	}
	if -left > behindMax {
		*due = time.Now()
	}
	*due = due.Add(interval)
	return true
}

func send(client sender, ticks clock, topic, key string, number int64, payloadBytes int) line {
	body := make([]byte, max(payloadBytes, len(key)+1))
	for i := copy(body, key+" "); i < len(body); i++ {
		body[i] = 'x'
	}
	message := primitive.NewMessage(topic, body).WithKeys([]string{key})
	found := line{Sequence: number, Key: key, StartNs: ticks.nowNs()}
	result, err := client.SendSync(context.Background(), message)
	found.EndNs = ticks.nowNs()
	switch {
	case err != nil:
		found.Status, found.Problem = "error", err.Error()
	case result.Status == primitive.SendOK:
		found.Status, found.Offset = acknowledged, result.QueueOffset
		found.Broker, found.Queue = result.MessageQueue.BrokerName, result.MessageQueue.QueueId
	default:
		found.Status = fmt.Sprintf("status %d", result.Status)
	}
	return found
}

// askForRoutes does what the client does every 30 s. The client is a private field of its producer.
func askForRoutes(of sender, every time.Duration) {
	field := reflect.ValueOf(of).Elem().FieldByName("client")
	client := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(routeAsker)
	for range time.Tick(every) {
		client.UpdateTopicRouteInfo()
	}
}

func write(path string, lines <-chan line, written chan<- struct{}) {
	defer close(written)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	exitOn(err)
	defer file.Close()
	out := bufio.NewWriter(file)
	encoder := json.NewEncoder(out)
	for one := range lines {
		exitOn(encoder.Encode(one))
		if len(lines) == 0 {
			exitOn(out.Flush())
		}
	}
	exitOn(out.Flush())
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
