"""Meeting rooms: a room is a calendar, a booking an event, and two bookings never share a room's time."""
